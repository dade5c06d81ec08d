import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// The page and the runtime have one origin; PARLEY_URL names another server.
const parley = process.env.PARLEY_URL ?? "http://127.0.0.1:8000";

// Vite's proxy keeps a response open when its server has gone; the page has to notice that.
const passBreaks = (proxy) => proxy.on("proxyRes", (from, _request, to) => from.on("close", () => from.complete || to.destroy()));

export default defineConfig({
  plugins: [react()],
  server: { proxy: { "/api/copilotkit": { target: parley, changeOrigin: true, configure: passBreaks } } },
});
