import { defineConfig } from "vitest/config"

export default defineConfig({
  test: {
    root: new URL("../..", import.meta.url).pathname,
    include: ["test/interop/**/*.interop.ts"],
    globalSetup: ["test/support/pages.ts", "test/interop/install.ts"],
    setupFiles: ["test/support/setup.ts"],
    reporters: [["default", { summary: false }], "./test/support/reporter.ts"],
    pool: "forks",
    testTimeout: 300_000,
    hookTimeout: 300_000
  }
})
