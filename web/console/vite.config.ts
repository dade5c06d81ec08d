import react from "@vitejs/plugin-react";
import { defaultClientConditions, defineConfig } from "vite";

const server = process.env.PARLEY_URL ?? "http://127.0.0.1:8000";

// Everything is served from the binary under a policy without inline scripts or styles: nothing may be inlined.
export default defineConfig({
  plugins: [react()],
  resolve: { conditions: ["parley-source", ...defaultClientConditions] },
  build: { target: "es2022", assetsInlineLimit: 0, modulePreload: { polyfill: false }, cssTarget: ["chrome123", "firefox120", "safari17.5"], reportCompressedSize: false },
  server: { proxy: { "/parley": { target: server, ws: true }, "/auth": server, "/page": server } },
});
