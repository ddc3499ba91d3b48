import { availableParallelism } from "node:os"
import { defineConfig } from "vitest/config"

export default defineConfig({
  // Plugins of tests import the package by its name, and get the sources under test.
  resolve: { alias: { "hermes-effect": new URL("../src/index.ts", import.meta.url).pathname } },
  test: {
    root: new URL("..", import.meta.url).pathname,
    include: ["test/**/*.test.ts"],
    exclude: ["node_modules/**", "test/relay/**"],
    setupFiles: ["test/support/setup.ts"],
    reporters: [["default", { summary: false }], "./test/support/reporter.ts"],
    pool: "forks",
    // Many tests wait for programs that they start, also where there is one processor alone.
    maxWorkers: Math.max(2, availableParallelism()),
    testTimeout: 60_000,
    hookTimeout: 60_000
  }
})
