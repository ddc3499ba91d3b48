import { availableParallelism } from "node:os"
import { defineConfig } from "vitest/config"

/** Rooms whose tests share nothing that one of them changes: their files may share a process and its modules. */
const pure = ["config", "domain", "middleware", "provider", "routing"].map((room) => `test/${room}/**/*.test.ts`)

export default defineConfig({
  // Plugins of tests import the package by its name, and get the sources under test.
  resolve: { alias: { "hermes-effect": new URL("../src/index.ts", import.meta.url).pathname } },
  test: {
    root: new URL("..", import.meta.url).pathname,
    projects: [
      {
        extends: true,
        test: { name: "main", include: ["test/**/*.test.ts"], exclude: ["node_modules/**", "test/relay/**", ...pure], setupFiles: ["test/support/setup.ts"] }
      },
      {
        extends: true,
        test: { name: "pure", include: pure, setupFiles: ["test/support/setup.ts"], isolate: false }
      },
      {
        // Over a native library, which lets a process have one configuration at a time: a process for each file.
        extends: true,
        resolve: { alias: { "nemo-relay-node": new URL("relay/node_modules/nemo-relay-node/index.js", import.meta.url).pathname } },
        test: {
          name: "relay",
          include: ["test/relay/*.test.ts"],
          globalSetup: ["test/relay/support/install.ts"],
          setupFiles: ["test/support/setup.ts", "test/relay/support/setup.ts"]
        }
      }
    ],
    reporters: [["default", { summary: false }], "./test/support/reporter.ts"],
    pool: "forks",
    // Many tests wait for programs that they start: more of them than there are processors keep those at work.
    maxWorkers: availableParallelism() + 2,
    // Where nobody looks on, a test of a started program that a stalled machine disturbed is looked at once more; the report
    // names it as retried. A developer's run has no second look.
    retry: process.env["CI"] === undefined ? 0 : 1,
    testTimeout: 60_000,
    hookTimeout: 60_000
  }
})
