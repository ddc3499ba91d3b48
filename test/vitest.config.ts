import { defineConfig } from "vitest/config"

export default defineConfig({
  test: {
    root: new URL("..", import.meta.url).pathname,
    include: ["test/**/*.test.ts"],
    exclude: ["node_modules/**", "test/relay/**"],
    setupFiles: ["test/support/setup.ts"],
    reporters: [["default", { summary: false }], "./test/support/reporter.ts"],
    pool: "forks",
    testTimeout: 60_000,
    hookTimeout: 60_000
  }
})
