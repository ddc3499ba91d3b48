import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { readFileSync, utimesSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileName } from "../../../src/hooks/ShellHookConsent.ts"
import { runScript } from "../../support/runScript.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

describe("a file that two processes change at once", () => {
  for (const [kind, name, empty] of [
    ["config", "config.yaml", "command_allowlist: []\n"],
    ["consent", fileName, `{"approvals":[]}`]
  ] as const) {
    it.live(`${name}: has both changes, however slowly one of them looks at the lock that a dead one left`, () =>
      Effect.gen(function* () {
        const home = yield* temporaryDirectory
        writeFileSync(join(home, name), empty)
        writeFileSync(join(home, `${name}.lock`), "")
        utimesSync(join(home, `${name}.lock`), 1, 1)
        const ended = yield* Effect.all(
          [
            runScript("fileWriter.ts", [kind, home, "first", "0", "1500"]),
            runScript("fileWriter.ts", [kind, home, "second", "700", "0"])
          ],
          { concurrency: 2 }
        )
        for (const { code, errors } of ended) assert.deepStrictEqual([code, errors], [0, ""])
        const text = readFileSync(join(home, name), "utf8")
        assert.deepStrictEqual(
          ["first", "second"].filter((entry) => !text.includes(entry)),
          []
        )
      }).pipe(Effect.scoped)
    )
  }
})
