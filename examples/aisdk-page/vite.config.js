import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// Vite's proxy keeps a response open when its server has gone; the page has to notice that.
const passBreaks = (proxy) => proxy.on("proxyRes", (from, _request, to) => from.on("close", () => from.complete || to.destroy()));

// In development the page and Parley have one address, so that no other origin has to be allowed.
export default defineConfig({
  plugins: [react()],
  server: { proxy: { "/api": { target: process.env.PARLEY_URL ?? "http://127.0.0.1:8000", ws: true, configure: passBreaks }, "/parley": process.env.PARLEY_URL ?? "http://127.0.0.1:8000" } },
});
