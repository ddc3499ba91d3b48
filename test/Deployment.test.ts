// What stands in .github: the action, started on events as GitHub writes them, and the Dockerfile.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { spawnSync } from "node:child_process"
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { parse } from "yaml"
import { root } from "./support/sources.ts"
import { temporaryDirectory } from "./support/temporaryDirectory.ts"

const read = (path: string): string => readFileSync(join(root, ".github", path), "utf8")

/** Stands in for hermes: answers with what it was given. */
const standIn = `#!${process.execPath}
import { readFileSync } from "node:fs"
console.log(JSON.stringify({ args: process.argv.slice(2), stdin: readFileSync(0, "utf8"), variables: Object.keys(process.env).sort() }))
`

const issue = { number: 7, title: "A title", body: "A description", author_association: "NONE" }
const comment = (body: string, author_association = "MEMBER") => ({
  issue,
  comment: { body, author_association },
  sender: { type: "User" }
})

describe("the action", () => {
  it.effect("answers members who mention it, as data, with the key of the model alone", () =>
    Effect.gen(function* () {
      const folder = yield* temporaryDirectory
      mkdirSync(join(folder, "bin"))
      writeFileSync(join(folder, "bin/package.json"), JSON.stringify({ type: "module" }))
      writeFileSync(join(folder, "bin/hermes"), standIn, { mode: 0o755 })
      const answer = (kind: string, event: unknown) => {
        writeFileSync(join(folder, "event.json"), JSON.stringify(event))
        writeFileSync(join(folder, "output"), "")
        const { status, stderr, stdout } = spawnSync(process.execPath, [join(root, ".github/action/answer.mjs")], {
          encoding: "utf8",
          env: {
            PATH: join(folder, "bin"),
            GITHUB_EVENT_NAME: kind,
            GITHUB_EVENT_PATH: join(folder, "event.json"),
            GITHUB_OUTPUT: join(folder, "output"),
            GITHUB_REPOSITORY: "a/b",
            RUNNER_TEMP: folder,
            GH_TOKEN: "token",
            HERMES_ACTION_PROVIDER: "anthropic",
            HERMES_ACTION_MODEL: "m",
            HERMES_ACTION_KEY: "key",
            HERMES_ACTION_KEY_VARIABLE: "ANTHROPIC_API_KEY",
            HERMES_ACTION_MENTION: "@hermes",
            HERMES_ACTION_ASSOCIATIONS: "OWNER,MEMBER",
            HERMES_ACTION_RUN_BUDGET: "60"
          }
        })
        return { status, text: stdout + stderr, output: readFileSync(join(folder, "output"), "utf8") }
      }

      const text = '@hermes what is `this` "about"?'
      const answered = answer("issue_comment", comment(text))
      assert.deepInclude(answered, { status: 0, output: "number=7\n" })
      const {
        args,
        stdin,
        variables
      }: { readonly args: ReadonlyArray<string>; readonly stdin: string; readonly variables: ReadonlyArray<string> } =
        JSON.parse(readFileSync(join(folder, "hermes-answer.md"), "utf8"))
      assert.include(stdin, `<comment>\n${text}\n</comment>`)
      assert.notInclude(args.join(" "), "about")
      assert.includeMembers([...args], ["--safe-mode", "plan", "file"])
      assert.deepStrictEqual(
        variables.filter((name) => !name.startsWith("_")),
        ["ANTHROPIC_API_KEY", "HERMES_HOME", "HOME", "PATH"]
      )
      assert.deepStrictEqual(
        readdirSync(folder).filter((name) => name.startsWith("hermes-home")),
        []
      )

      assert.deepInclude(answer("pull_request_target", comment(text)), { status: 1, output: "" })
      for (const event of [
        comment(text, "NONE"),
        comment("nothing"),
        { ...comment(text), sender: { type: "Bot" } },
        {}
      ]) {
        const skipped = answer("issue_comment", event)
        assert.deepInclude(skipped, { status: 0, output: "" })
        assert.match(skipped.text, /^No answer: /)
      }
    })
  )

  it("puts nothing of an event into a script, and keeps the token from hermes", () => {
    const { inputs, runs } = parse(read("action/action.yml"))
    for (const { env, run } of runs.steps) {
      assert.notInclude(run, "${{")
      if (String(run).includes("answer.mjs")) assert.notInclude(JSON.stringify(env), "token")
    }
    const [, sample = ""] = /```yaml\n([\s\S]*?)```/.exec(read("action/README.md")) ?? []
    const { jobs, permissions } = parse(sample)
    assert.deepStrictEqual(permissions, {})
    assert.deepStrictEqual(jobs.answer.permissions, { contents: "read", issues: "write", "pull-requests": "write" })
    const used = jobs.answer.steps.at(-1).with
    assert.deepStrictEqual(
      Object.keys(used).filter((name) => !Object.hasOwn(inputs, name)),
      []
    )
    const needed = Object.entries<{ readonly required?: boolean }>(inputs)
      .filter(([, { required }]) => required === true)
      .map(([name]) => name)
    assert.deepStrictEqual(
      needed.filter((name) => !Object.hasOwn(used, name)),
      []
    )
  })
})

describe("the Dockerfile", () => {
  const instructions = read("Dockerfile")
    .replaceAll(/\\\n/g, " ")
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"))
  const of = (name: string) =>
    instructions.filter((line) => line.startsWith(`${name} `)).map((line) => line.slice(name.length + 1).trim())

  it("ends as a user without rights, in a stage without the sources", () => {
    assert.deepStrictEqual(
      instructions.filter((line) => !/^(?:FROM|WORKDIR|COPY|RUN|USER|ENV|ENTRYPOINT|CMD) /.test(line)),
      []
    )
    assert.strictEqual(of("FROM").length, 2)
    assert.deepStrictEqual(of("USER"), ["10001:10001"])
    const last = instructions.slice(instructions.findLastIndex((line) => line.startsWith("FROM ")))
    assert.isAbove(
      last.findIndex((line) => line.startsWith("USER ")),
      last.findLastIndex((line) => line.startsWith("RUN "))
    )
    assert.isTrue(last.filter((line) => line.startsWith("COPY ")).every((line) => line.includes("--from=build")))
  })

  it("copies what is there", () => {
    const copied = of("COPY")
      .filter((line) => !line.startsWith("--from"))
      .flatMap((line) => line.split(" ").slice(0, -1))
    assert.isNotEmpty(copied)
    assert.deepStrictEqual(
      copied.filter((path) => !existsSync(join(root, path))),
      []
    )
  })
})

describe("pages of .github", () => {
  for (const page of ["CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "action/README.md"]) {
    it(`${page} links what is there, and names scripts that there are`, () => {
      const text = read(page)
      const links = Array.from(text.matchAll(/\]\(([^)#:]+)\)/g), ([, link = ""]) => link)
      assert.deepStrictEqual(
        links.filter((link) => !existsSync(join(root, ".github", dirname(page), link))),
        []
      )
      const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
      const named = Array.from(text.matchAll(/npm run ([\w:]+)/g), ([, name = ""]) => name)
      assert.deepStrictEqual(
        named.filter((name) => !Object.hasOwn(scripts, name)),
        []
      )
    })
  }
})
