// `hermes trust` in this process: the list, and what is put on it and taken from it.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { ProcessVariables } from "../../../src/base/platform/ProcessVariables.ts"
import { machine } from "../../support/hermes.ts"
import { cli } from "./capture.ts"

describe("hermes trust", () => {
  it.live("adds, lists and removes folders, and says what is wrong", () =>
    Effect.gen(function* () {
      const { cwd, home } = yield* machine
      const trust = (...argv: ReadonlyArray<string>) =>
        Effect.provideService(cli("trust", ...argv), ProcessVariables, { HOME: join(home, ".."), HERMES_HOME: home })
      const project = join(cwd, "project")
      mkdirSync(project)
      assert.deepInclude(yield* trust(), {
        code: 0,
        stdout: "No trusted folders. Trust one with `hermes trust add`.\n"
      })
      assert.deepInclude(yield* trust("add", project), { code: 0, stdout: `trusted ${project}\n` })
      assert.match((yield* trust("list")).stdout, /\/work\/project {2}owner \d+ {2}\d{4}-\d\d-\d\d\n$/)
      const [entry] = JSON.parse((yield* trust("list", "--json")).stdout)
      assert.deepStrictEqual(Object.keys(entry), ["path", "owner", "trusted_at"])
      const near = yield* trust("remove", join(cwd, "projekt"))
      assert.deepStrictEqual(
        [near.code, near.stderr],
        [2, `Error: no trusted folder "${join(cwd, "projekt")}": did you mean "${project}"?\n`]
      )
      assert.deepInclude(yield* trust("remove", project), { code: 0, stdout: `no longer trusted: ${project}\n` })
      assert.deepInclude(yield* trust("list", "--json"), { code: 0, stdout: "[]\n" })
      const wide = yield* trust("add", "/")
      assert.deepStrictEqual([wide.code, wide.stdout], [2, ""])
      assert.match(wide.stderr, /^Error: \/: this folder holds everything else too/)
    })
  )
})
