import { availableParallelism } from "node:os"
import { defineConfig } from "vitest/config"

/** Files that a process has to themselves: they look at what belongs to a whole process, or change it for good. */
const alone = [
  "test/RouteWire.test.ts",
  "test/agent/PicturesWithoutSharp.wire.test.ts",
  "test/base/platform/HttpTransport.test.ts"
]

// What Node compiled is kept for the next process: files of tests and the scripts that they start load the same modules
// again and again. A program under test keeps its own, as it does for a user.
process.env["NODE_COMPILE_CACHE"] ??= new URL("../node_modules/.cache/node-compile", import.meta.url).pathname

export default defineConfig({
  // Plugins of tests import the package by its name, and get the sources under test.
  resolve: {
    alias: [
      { find: /^hermes-effect$/, replacement: new URL("../src/index.ts", import.meta.url).pathname },
      { find: /^hermes-effect\/(.+)$/, replacement: `${new URL("../src/kit/entry", import.meta.url).pathname}/$1.ts` }
    ]
  },
  test: {
    root: new URL("..", import.meta.url).pathname,
    projects: [
      { extends: true, test: { name: "alone", include: alone, setupFiles: ["test/support/setup.ts"] } },
      {
        // Files share a process and its modules, one after another: to load them again for each file takes as long as
        // the tests.
        extends: true,
        test: {
          name: "main",
          include: ["test/**/*.test.ts"],
          exclude: ["node_modules/**", "test/relay/**", ...alone],
          setupFiles: ["test/support/setup.ts"],
          isolate: false
        }
      },
      {
        // Over a native library, which lets a process have one configuration at a time: a process for each file.
        extends: true,
        resolve: {
          alias: { "nemo-relay-node": new URL("relay/node_modules/nemo-relay-node/index.js", import.meta.url).pathname }
        },
        test: {
          name: "relay",
          include: ["test/relay/*.test.ts"],
          globalSetup: ["test/relay/support/install.ts"],
          setupFiles: ["test/support/setup.ts", "test/relay/support/setup.ts"]
        }
      }
    ],
    globalSetup: ["test/support/pages.ts"],
    reporters: [["default", { summary: false }], "./test/support/reporter.ts"],
    pool: "forks",
    // Many tests wait for programs that they start: more of them than there are processors keep those at work.
    maxWorkers: availableParallelism() + 2,
    // Where nobody looks on, a test of a started program that a stalled machine disturbed is looked at once more; the
    // report names it as retried. A developer's run has no second look.
    retry: process.env["CI"] === undefined ? 0 : 1,
    // For what hangs, and for nothing else: on a busy machine everything takes ten times as long.
    testTimeout: 300_000,
    hookTimeout: 300_000
  }
})
