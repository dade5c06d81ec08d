import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    globalSetup: ["test/server.ts"],
    include: ["test/**/*.test.ts"],
    // Node 20 has a WebSocket, but only on request.
    pool: "forks",
    execArgv: process.versions.node.startsWith("20.") ? ["--experimental-websocket", "--no-warnings"] : [],
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
