// `hermes -c` and `--resume latest` go on in the folder that they are called in, and nowhere else unasked.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { machine } from "../../support/hermes.ts"

const setUp = Effect.gen(function* () {
  const { at, hermes } = yield* machine
  const [one, two, repository] = [at("one"), at("two"), at("repository")]
  for (const folder of [one, two, join(repository, ".git", "refs"), join(repository, "src")])
    mkdirSync(folder, { recursive: true })
  return { run: (cwd: string, ...args: ReadonlyArray<string>) => hermes(args, { cwd }), one, two, repository }
})

const sessionOf = (stderr: string): string => /session_id: (\S+)/.exec(stderr)?.[1] ?? ""

describe("the latest session", () => {
  it.live("is the newest of this folder, however new that of another one is", () =>
    Effect.gen(function* () {
      const { one, run, two } = yield* setUp
      const first = sessionOf((yield* run(one, "-Q", "Reply exactly one")).stderr)
      const second = sessionOf((yield* run(two, "-Q", "Reply exactly two")).stderr)
      assert.notStrictEqual(first, second)
      for (const flags of [["-c"], ["--resume", "latest"]]) {
        const resumed = yield* run(one, ...flags, "-Q", "Reply exactly again")
        assert.deepStrictEqual([resumed.code, sessionOf(resumed.stderr)], [0, first], resumed.stderr)
      }
    })
  )

  it.live("of a folder without one is an error that names the way out, and nothing is written", () =>
    Effect.gen(function* () {
      const { one, run, two } = yield* setUp
      const first = sessionOf((yield* run(one, "-Q", "Reply exactly one")).stderr)
      const refused = yield* run(two, "-c", "-Q", "Reply exactly two")
      assert.deepStrictEqual([refused.code, refused.stdout], [2, ""])
      assert.include(refused.stderr, "--resume")
      const named = yield* run(two, "--resume", first, "-q", "Reply exactly three")
      assert.strictEqual(named.code, 0, named.stderr)
      assert.include(named.stderr + named.stdout, "another folder")
    })
  )

  it.live("is listed with its first prompt until it has a title, its folder and the branch", () =>
    Effect.gen(function* () {
      const { one, repository, run } = yield* setUp
      writeFileSync(join(repository, ".git", "HEAD"), "ref: refs/heads/topic/x\n")
      yield* run(one, "-Q", "Reply exactly one\nand nothing else")
      const second = sessionOf((yield* run(repository, "-Q", "Reply exactly 二 to 漢字")).stderr)
      const { stdout } = yield* run(one, "sessions", "list")
      assert.match(stdout, / {2}Reply exactly 二 to 漢字 +\S+repository \(topic\/x\)\n/)
      assert.match(stdout, / {2}Reply exactly one +this folder\n/)
      // The branch is the one on which the session began.
      writeFileSync(join(repository, ".git", "HEAD"), "ref: refs/heads/later\n")
      yield* run(one, "sessions", "rename", second, "Two")
      assert.match((yield* run(repository, "sessions")).stdout, / {2}Two +this folder \(topic\/x\)\n/)
      const exported = yield* run(one, "sessions", "export", second)
      assert.deepStrictEqual(exported.stdout, (yield* run(one, "sessions", "export", "--session-id", second)).stdout)
      assert.lengthOf(exported.stdout.trim().split("\n"), 1)
      assert.include(exported.stdout, '"branch":"topic/x"')
    })
  )

  it.live("of a repository is found from any folder in it", () =>
    Effect.gen(function* () {
      const { repository, run } = yield* setUp
      const first = sessionOf((yield* run(repository, "-Q", "Reply exactly one")).stderr)
      const resumed = yield* run(join(repository, "src"), "-c", "-Q", "Reply exactly two")
      assert.deepStrictEqual([resumed.code, sessionOf(resumed.stderr)], [0, first], resumed.stderr)
    })
  )
})
