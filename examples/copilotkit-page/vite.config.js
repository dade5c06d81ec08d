import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// The page and the runtime have one origin; PARLEY names another server.
const parley = process.env.PARLEY ?? "http://127.0.0.1:8000";

export default defineConfig({
  plugins: [react()],
  server: { proxy: { "/api/copilotkit": { target: parley, changeOrigin: true } } },
});
