// `hermes permissions` in this process: the rules with their files and lines, and which of them decides.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { ProcessVariables } from "../../../src/base/platform/ProcessVariables.ts"
import { machine } from "../../support/hermes.ts"
import { cli } from "./capture.ts"

const scene = Effect.gen(function* () {
  const { home } = yield* machine
  mkdirSync(home, { recursive: true })
  return {
    file: join(home, "config.yaml"),
    run: (...argv: ReadonlyArray<string>) =>
      Effect.provideService(cli(...argv), ProcessVariables, { HOME: join(home, ".."), HERMES_HOME: home })
  }
})

describe("hermes permissions", () => {
  it.live("a rule that cannot be read is an error of config check and doctor, as of permissions", () =>
    Effect.gen(function* () {
      const { file, run } = yield* scene
      writeFileSync(file, 'permissions:\n  deny: ["terminal(rm"]\n')
      const checked = yield* run("config", "check")
      assert.strictEqual(checked.code, 2)
      assert.match(checked.stderr, /^Error: permissions: permissions\.deny\[0\]: "terminal\(rm" is not a rule: /)
      assert.match((yield* run("doctor")).stdout, /^✗ settings +permissions: permissions\.deny\[0\]: /m)
      writeFileSync(file, 'permissions:\n  deny: ["terminal(rm:*)"]\n')
      assert.deepInclude(yield* run("config", "check"), { code: 0, stdout: "The settings are valid\n" })
    })
  )

  it.live("lists rules with file and line, and explains which of them decides", () =>
    Effect.gen(function* () {
      const { file, run } = yield* scene
      assert.deepInclude(yield* run("permissions"), {
        code: 0,
        stdout: "No rules. Write them to `permissions` in config.yaml, in the lists deny, ask and allow.\n"
      })
      writeFileSync(
        file,
        "permissions:\n  allow:\n    - terminal(npm test:*)\n  deny:\n    - terminal(git push:*)\n  ask: [write_file(dist/**)]\n"
      )
      const listed = yield* run("permissions", "list")
      assert.match(
        listed.stdout,
        /^deny +terminal\(git push:\*\) +\S+config\.yaml line 5\nask +write_file\(dist\/\*\*\) +\S+config\.yaml line 6\nallow +terminal\(npm test:\*\) +\S+config\.yaml line 3\n$/
      )
      const explained = (call: string) => Effect.map(run("permissions", "test", call), ({ stdout }) => stdout.trim())
      assert.match(
        yield* explained("cd x && git push"),
        /^deny {2}permissions\.deny: terminal\(git push:\*\) \(.*line 5\)$/
      )
      assert.match(yield* explained("npm test -- x"), /^allow {2}permissions\.allow: terminal\(npm test:\*\)/)
      assert.match(yield* explained("write_file(dist/a.js)"), /^ask {2}permissions\.ask: write_file\(dist\/\*\*\)/)
      assert.strictEqual(yield* explained("make x"), "ask  command that is not known to only read")
      assert.strictEqual(yield* explained("ls"), "allow  no rule; it only reads")
      assert.match(yield* explained("terminal(rm -rf /)"), /^deny {2}never runs: /)
      assert.strictEqual(
        yield* explained("web(new.example)"),
        "ask  request to new.example, a host that is not approved"
      )
      assert.deepInclude(JSON.parse((yield* run("permissions", "test", "git push", "--json")).stdout), {
        decision: "deny",
        tool: "terminal"
      })
    })
  )

  it.live("counts the allow-list of earlier approvals and the deny globs", () =>
    Effect.gen(function* () {
      const { file, run } = yield* scene
      writeFileSync(
        file,
        'command_allowlist: ["git fetch *", "command: make all"]\napprovals: { deny: ["npm publish*"] }\n'
      )
      assert.match(
        (yield* run("permissions")).stdout,
        /^deny +npm publish\* +approvals\.deny\nallow +git fetch \* +command_allowlist\nallow +command: make all +command_allowlist\n$/
      )
      const explained = (call: string) => Effect.map(run("permissions", "test", call), ({ stdout }) => stdout.trim())
      assert.strictEqual(yield* explained("git fetch origin"), "allow  command_allowlist: git fetch *")
      assert.strictEqual(yield* explained("make all"), "allow  command_allowlist: command: make all")
      assert.match(yield* explained("git fetch && make"), /^ask /)
      assert.strictEqual(yield* explained("npm publish"), "deny  approvals.deny: npm publish*")
      const planning = yield* run("permissions", "test", "make all", "--mode", "plan")
      assert.strictEqual(planning.stdout.trim(), "deny  plan mode only allows reading")
    })
  )

  it.live("exits with 2 for a rule that cannot be read, and allows nothing by it", () =>
    Effect.gen(function* () {
      const { file, run } = yield* scene
      writeFileSync(file, "permissions:\n  allow:\n    - terminal(npm\n    - terminal(make)\n")
      const listed = yield* run("permissions", "list")
      assert.deepInclude(listed, { code: 2 })
      assert.match(listed.stdout, /^allow +terminal\(make\)/)
      assert.match((yield* run("permissions", "test", "npm")).stdout, /^ask /)
      writeFileSync(file, "permissions:\n  deny: 3\n")
      const wrong = yield* run("permissions", "list")
      assert.deepStrictEqual([wrong.code, wrong.stderr.trim().split("\n").length], [2, 1])
      assert.strictEqual((yield* run("permissions", "test", "")).code, 2)
    })
  )
})
