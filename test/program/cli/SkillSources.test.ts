// Skills of a project, a plugin and the user, through the program: what counts, and what is refused.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { machine } from "../../support/hermesInProcess.ts"

const skill = (name: string, body: string): string =>
  `---\nname: ${name}\ndescription: What ${name} is for\n---\n${body}\n`

describe("skills of other places than the home directory", () => {
  it.live(
    "those of a project count when its folder is trusted, behind the user's own; those of a plugin have its name",
    () =>
      Effect.gen(function* () {
        const { hermes, keep, put } = yield* machine
        put(".git/HEAD", "ref: refs/heads/main\n")
        put(".hermes/skills/deploy/SKILL.md", skill("deploy", "The project's way."))
        put(".agents/skills/review/SKILL.md", skill("review", "Look twice."))
        keep("skills/review/SKILL.md", skill("review", "My way."))
        keep("plugins/tea/plugin.yaml", "name: tea\n")
        keep("plugins/tea/index.js", "export const register = () => {}\n")
        keep("plugins/tea/skills/brew/SKILL.md", skill("brew", "Three minutes."))
        keep("config.yaml", "plugins:\n  enabled: [tea]\n")

        const before = yield* hermes(["skills", "list"])
        assert.deepStrictEqual(before.stdout.trimEnd().split("\n"), [
          "available  review    general  user    What review is for",
          "available  tea:brew  tea      plugin  What brew is for"
        ])
        assert.match(
          before.stderr,
          /^Warning: .*\.hermes\/skills: .*its folder is not trusted\. Look at it, then run `hermes trust add .*work`\nWarning: .*\.agents\/skills/
        )
        assert.strictEqual((yield* hermes(["skills", "show", "deploy"])).code, 2)

        yield* hermes(["trust", "add", "."])
        const after = yield* hermes(["skills", "list"])
        assert.deepStrictEqual(after.stdout.trimEnd().split("\n"), [
          "available  deploy    general  project  What deploy is for",
          "available  review    general  user     What review is for",
          "available  tea:brew  tea      plugin   What brew is for"
        ])
        assert.strictEqual(after.stderr, "")
        assert.include((yield* hermes(["skills", "show", "review"])).stdout, "My way.")
        for (const name of ["tea:brew", "tea/brew", "brew"])
          assert.include((yield* hermes(["skills", "show", name])).stdout, "Three minutes.", name)
        assert.match((yield* hermes(["skills", "show", "tea:brwe"])).stderr, /did you mean "tea:brew"\?/)
        const kept = yield* hermes(["skills", "remove", "tea:brew", "--yes"])
        assert.deepStrictEqual([kept.code, kept.stderr.includes("read-only")], [1, true])
        const removed = yield* hermes(["skills", "remove", "deploy", "--yes"])
        assert.deepStrictEqual([removed.code, removed.stderr.includes("read-only")], [1, true])

        yield* hermes(["plugins", "disable", "tea"])
        assert.notInclude((yield* hermes(["skills", "list"])).stdout, "brew")
        yield* hermes(["plugins", "enable", "tea"])

        const prompt = yield* hermes(["prompt", "show"])
        assert.include(prompt.stdout, "deploy: What deploy is for")
        assert.include(prompt.stdout, "tea:\n  - brew: What brew is for")
        const told = yield* hermes(["-Q", "-q", "Reply with exactly: hi", "-s", "tea:brew,deploy"])
        assert.deepInclude(told, { code: 0, stdout: "hi\n" })
        assert.match(
          (yield* hermes(["-Q", "-q", "hi", "-s", "nope"])).stderr,
          /Error: --skills: there is no skill "nope"/
        )
      })
  )
})
