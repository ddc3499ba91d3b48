import { defineConfig } from "vitest/config"

export default defineConfig({
  test: {
    root: new URL("../..", import.meta.url).pathname,
    include: ["test/browser/**/*.browser.ts"],
    globalSetup: ["test/support/pages.ts", "test/browser/install.ts"],
    setupFiles: ["test/support/setup.ts"],
    reporters: [["default", { summary: false }], "./test/support/reporter.ts"],
    pool: "forks",
    fileParallelism: false,
    testTimeout: 120_000,
    hookTimeout: 120_000
  }
})
