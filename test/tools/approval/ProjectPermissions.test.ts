// Rules of a project's own file: it asks and refuses at once, and allows when its folder is trusted.
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Config from "../../../src/base/config/Config.ts"
import * as FolderTrust from "../../../src/base/config/FolderTrust.ts"
import { ProcessVariables } from "../../../src/base/platform/ProcessVariables.ts"
import * as Permissions from "../../../src/tools/approval/Permissions.ts"

/** Rules for the project whose file has this text, with and without trust; each time read anew. */
const scene = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const root = yield* fs.makeTempDirectoryScoped({ prefix: "hermes-test-" })
  yield* fs.makeDirectory(`${root}/home/.hermes`, { recursive: true })
  yield* fs.makeDirectory(`${root}/project/.hermes`, { recursive: true })
  yield* fs.makeDirectory(`${root}/project/.git/refs`, { recursive: true })
  yield* fs.makeDirectory(`${root}/project/src`)
  const variables = { HOME: `${root}/home`, HERMES_HOME: `${root}/home/.hermes` }
  const under = <A, E, R>(work: Effect.Effect<A, E, R>) =>
    work.pipe(
      Effect.provide(FolderTrust.layer.pipe(Layer.provideMerge(Config.layerAll()))),
      Effect.provideService(ProcessVariables, variables)
    )
  const rules = (text: string) =>
    Effect.andThen(
      fs.writeFileString(`${root}/project/.hermes/config.yaml`, text),
      under(Effect.flatMap(Permissions.make, ({ of }) => of(`${root}/project/src`)))
    )
  return { fs, root, under, rules }
})

const shown = ({ rules }: Permissions.RuleSet) => rules.map(({ list, text }) => `${list} ${text}`)

describe("Permissions of a project", () => {
  it.effect("ask and refuse at once, and allow once its folder is trusted", () =>
    Effect.gen(function* () {
      const { root, rules, under } = yield* scene
      const text =
        'permissions:\n  allow: [terminal(make)]\n  ask: ["write_file(dist/**)"]\n  deny:\n    - terminal(git push:*)\nmodel: x\n'
      const before = yield* rules(text)
      assert.deepStrictEqual(shown(before), ["deny terminal(git push:*)", "ask write_file(dist/**)"])
      assert.strictEqual(before.rules[0]?.source, `${root}/project/.hermes/config.yaml line 5`)
      assert.strictEqual(before.rules[0]?.folder, `${root}/project`)
      assert.deepStrictEqual(
        before.problems.map((problem) => problem.replace(root, "")),
        [
          '/project/.hermes/config.yaml: only "permissions" has an effect in the file of a project; ignored: model',
          `/project/.hermes/config.yaml: what it allows has no effect, because its folder is not trusted. Look at it, then run \`hermes trust add ${root}/project\``
        ]
      )
      yield* under(FolderTrust.FolderTrust.use(({ trust }) => trust(`${root}/project`)))
      assert.deepStrictEqual(shown(yield* rules(text)), [
        "deny terminal(git push:*)",
        "ask write_file(dist/**)",
        "allow terminal(make)"
      ])
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )

  it.effect("refuse all that is not known to read where they cannot be read, with file, line and form", () =>
    Effect.gen(function* () {
      const { root, rules } = yield* scene
      const broken = yield* rules("permissions:\n  deny:\n    - Bash(make)\n")
      assert.match(
        broken.problems[0]?.replace(root, "") ?? "",
        /^\/project\/\.hermes\/config\.yaml: line 3: permissions\.deny\[0\]: "Bash\(make\)" is not a rule: Bash is called terminal here; expected TOOL, terminal\(COMMAND\), .*\. Until it is corrected, every call that is not known to only read is refused\.$/
      )
      for (const text of [
        "permissions: [",
        "permissions: 3\n",
        "- a\n",
        "permissions:\n  denny: []\n",
        "permissions:\n  deny: x\n"
      ]) {
        const { problems, rules: found } = yield* rules(text)
        assert.deepStrictEqual(
          [problems.length, found.map(({ list, problem }) => [list, problem !== undefined])],
          [1, [["deny", true]]],
          text
        )
      }
      assert.deepStrictEqual(yield* rules(""), { rules: [], problems: [] })
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )

  it.effect("hold for the folder as they were when it was first worked in", () =>
    Effect.gen(function* () {
      const { fs, root, under } = yield* scene
      const file = `${root}/project/.hermes/config.yaml`
      yield* fs.writeFileString(file, "permissions:\n  deny: [terminal(make)]\n")
      yield* under(
        Effect.gen(function* () {
          const { of } = yield* Permissions.make
          assert.strictEqual((yield* of(`${root}/project`)).rules.length, 1)
          yield* fs.writeFileString(file, "")
          assert.strictEqual((yield* of(`${root}/project`)).rules.length, 1)
        })
      )
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )
})
