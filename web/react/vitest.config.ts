import { defineConfig } from "vitest/config";

export default defineConfig({
  ssr: { resolve: { conditions: ["parley-source", "node", "import", "default"] } },
  test: { include: ["test/**/*.test.ts?(x)"], testTimeout: 60_000 },
});
