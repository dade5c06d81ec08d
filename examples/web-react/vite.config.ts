import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// The packages are linked from their folders: one React for all of them.
export default defineConfig({ plugins: [react()], resolve: { dedupe: ["react", "react-dom"] } });
