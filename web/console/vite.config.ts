import react from "@vitejs/plugin-react";
import { defaultClientConditions, defineConfig } from "vite";

const server = process.env.PARLEY_URL ?? "http://127.0.0.1:8000";

// Every browser that the console supports reads woff2; the other formats of the fonts for formulas are left out.
const fonts = {
  name: "woff2-only",
  enforce: "pre" as const,
  transform: (code: string, id: string) => (/katex.*\.css$/.test(id) ? code.replace(/,url\([^)]+\.(?:woff|ttf)\) format\("\w+"\)/g, "") : null),
};

// Everything is served from the binary under a policy without inline scripts or styles: nothing may be inlined.
export default defineConfig({
  plugins: [fonts, react()],
  resolve: { conditions: ["parley-source", ...defaultClientConditions] },
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1200, // the chart library, loaded when a chart by specification is seen
    rolldownOptions: {
      input: { index: "index.html", embed: "embed.html", diagram: "diagram.html", loader: "src/loader.ts" },
      // Other pages name this one file, so its name has no hash.
      output: { entryFileNames: (c) => (c.name === "loader" ? "embed.js" : "assets/[name]-[hash].js") },
    },
  },
  server: { proxy: { "/parley": { target: server, ws: true }, "/auth": server, "/page": server, "/console.json": server } },
});
