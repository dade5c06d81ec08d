import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// In development the page and Parley have one address, so that no other origin has to be allowed.
export default defineConfig({
  plugins: [react()],
  server: { proxy: { "/api": { target: process.env.PARLEY_URL ?? "http://127.0.0.1:8000", ws: true }, "/parley": process.env.PARLEY_URL ?? "http://127.0.0.1:8000" } },
});
