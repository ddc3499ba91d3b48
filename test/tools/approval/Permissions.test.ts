// Rules of `permissions`: what each of them stands for, which of several decides, and that none matches more than it
// says.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Hooks from "../../../src/hooks/Hooks.ts"
import * as Approvals from "../../../src/tools/Approvals.ts"
import * as ApprovalOrder from "../../../src/tools/approval/ApprovalOrder.ts"
import { makeCallbackApprover } from "../../../src/tools/approval/Approver.ts"
import * as PermissionRule from "../../../src/tools/approval/PermissionRule.ts"
import * as Permissions from "../../../src/tools/approval/Permissions.ts"
import type { Concern, Question } from "../../../src/tools/approval/ApprovalRequest.ts"
import * as Glob from "../../../src/base/domain/Glob.ts"
import * as SessionIds from "../../../src/base/domain/Ids.ts"
import { ToolContext } from "../../../src/tools/ToolContext.ts"
import { allowedLines, deniedLines, disguises, notDenied, perhapsDenied } from "./permissionLines.ts"

interface Lists {
  readonly allow?: ReadonlyArray<string>
  readonly ask?: ReadonlyArray<string>
  readonly deny?: ReadonlyArray<string>
}

const scene = Effect.fnUntraced(function* (lists: Lists, policy: Partial<Approvals.Policy> = {}) {
  const questions: Array<Question> = []
  const hooks = yield* Hooks.make()
  const permissions = yield* Permissions.fromSettings({ allow: [], ask: [], deny: [], ...lists })
  const approver = makeCallbackApprover((question) =>
    Effect.sync(() => {
      questions.push(question)
      return "deny"
    })
  )
  const approvals = ApprovalOrder.make({ hooks, approver, policy, permissions: { ...permissions, home: "/home/me" } })
  const context = {
    sessionId: SessionIds.SessionId.make("s"),
    turnId: SessionIds.TurnId.make("t"),
    taskId: SessionIds.TaskId.make("k"),
    cwd: "/work/app"
  }
  /** `allow`, `ask`, or `deny`. */
  const decide = Effect.fnUntraced(function* (
    tool: string,
    args: Readonly<Record<string, unknown>>,
    more: Partial<Approvals.Call> = {}
  ) {
    questions.length = 0
    const answer = yield* Effect.provideService(approvals.check({ tool, args, ...more }), ToolContext, context)
    return answer._tag === "Permit" ? "allow" : questions.length > 0 ? "ask" : "deny"
  })
  return { approvals, decide, run: (command: string) => decide("terminal", { command }), questions }
})

const all = (lines: ReadonlyArray<string>, run: (line: string) => Effect.Effect<string>) =>
  Effect.map(
    Effect.forEach(lines, (line) => Effect.map(run(line), (decision) => [line, decision] as const)),
    (found) => found
  )

const changes: Concern = { key: "may change", permanent: true, target: { kind: "tool", text: "deploy" } }

describe("Permissions of commands", () => {
  it.effect("allows commands that begin with the words of a rule, beside commands that only look", () =>
    Effect.gen(function* () {
      const { run } = yield* scene({ allow: ["terminal(npm test:*)"] })
      assert.deepStrictEqual(
        yield* all(allowedLines, run),
        allowedLines.map((line) => [line, "allow"] as const)
      )
    })
  )

  it.effect("allows nothing that only looks like a rule", () =>
    Effect.gen(function* () {
      const { run } = yield* scene({ allow: ["terminal(npm test:*)"] })
      const allowed = (yield* all(disguises, run)).filter(([, decision]) => decision === "allow")
      assert.deepStrictEqual(allowed, [])
    })
  )

  it.effect("judges what only looks beside a command in the directory that the call names", () =>
    Effect.gen(function* () {
      const { decide } = yield* scene({ allow: ["terminal(npm test:*)"] })
      const runIn = (workdir: string) => (command: string) => decide("terminal", { command, workdir })
      for (const workdir of ["packages/core", "./packages/core/", "/work/app/packages/core"]) {
        assert.deepStrictEqual(
          yield* all(["npm test", "cd lib && npm test", "ls && npm test", "git log -1 && npm test"], runIn(workdir)),
          [
            ["npm test", "allow"],
            ["cd lib && npm test", "allow"],
            ["ls && npm test", "allow"],
            ["git log -1 && npm test", "ask"]
          ],
          workdir
        )
      }
      for (const workdir of [".", "/work/app"])
        assert.strictEqual(yield* runIn(workdir)("git log -1 && npm test"), "allow", workdir)
      for (const workdir of ["../other", "~/other", "packages/../.."]) {
        assert.strictEqual(yield* runIn(workdir)("npm test"), "ask", workdir)
      }
    })
  )

  it.effect("refuses a command wherever it stands, asks where it may be meant, and leaves others alone", () =>
    Effect.gen(function* () {
      const { run } = yield* scene({ deny: ["terminal(git push:*)"] }, { unknownCommands: "allow" })
      assert.deepStrictEqual(
        yield* all(deniedLines, run),
        deniedLines.map((line) => [line, "deny"] as const)
      )
      assert.deepStrictEqual(
        yield* all(perhapsDenied, run),
        perhapsDenied.map((line) => [line, "ask"] as const)
      )
      assert.deepStrictEqual(
        (yield* all(notDenied, run)).filter(([, decision]) => decision !== "allow"),
        []
      )
    })
  )

  it.effect("needs the exact words where a rule has no star, and both rules for a program that runs another", () =>
    Effect.gen(function* () {
      const { run } = yield* scene({ allow: ["terminal(make check)", "terminal(sudo:*)", "terminal(apt update)"] })
      assert.deepStrictEqual(
        yield* all(
          ["make check", "make check all", "make", "sudo apt update", "sudo apt install x", "apt update"],
          run
        ),
        [
          ["make check", "allow"],
          ["make check all", "ask"],
          ["make", "ask"],
          ["sudo apt update", "allow"],
          ["sudo apt install x", "ask"],
          ["apt update", "allow"]
        ]
      )
    })
  )

  it.effect("counts deny before ask before allow, whatever the order in the file", () =>
    Effect.gen(function* () {
      const { run } = yield* scene({
        allow: ["terminal(git:*)"],
        ask: ["terminal(git push:*)"],
        deny: ["terminal(git push --force:*)"]
      })
      assert.deepStrictEqual(yield* all(["git fetch", "git push", "git push --force"], run), [
        ["git fetch", "allow"],
        ["git push", "ask"],
        ["git push --force", "deny"]
      ])
    })
  )

  it.effect("lifts neither floor nor deny globs, and yolo lifts questions but no refusal", () =>
    Effect.gen(function* () {
      const wide = yield* scene({ allow: ["terminal"] }, { deny: ["git push*"] })
      assert.deepStrictEqual(yield* all(["make", "git push", "rm -rf /"], wide.run), [
        ["make", "allow"],
        ["git push", "deny"],
        ["rm -rf /", "deny"]
      ])
      const yolo = yield* scene({ ask: ["terminal(make:*)"], deny: ["terminal(git push:*)"] }, { yolo: true })
      assert.deepStrictEqual(yield* all(["make", "git push"], yolo.run), [
        ["make", "allow"],
        ["git push", "deny"]
      ])
      const listed = yield* scene({ ask: ["terminal(make:*)"] }, { allow: ["make*"] })
      assert.strictEqual(yield* listed.run("make"), "ask")
    })
  )

  it.effect("judges what is typed into a program, and commands of other tools", () =>
    Effect.gen(function* () {
      const { decide } = yield* scene({ allow: ["terminal(git:*)"], deny: ["terminal(git push:*)"] })
      assert.strictEqual(yield* decide("process", { action: "write", data: "git push\n" }), "deny")
      const runs = { commandArguments: ["script"], inputArguments: [] }
      assert.strictEqual(yield* decide("deploy", { script: "cd x && git push" }, { runs }), "deny")
      assert.strictEqual(yield* decide("deploy", { script: "git fetch" }, { runs }), "ask")
    })
  )
})

describe("Permissions of paths, hosts and tools", () => {
  const outside = (path: string): Concern => ({
    key: `write outside of the working tree: ${path}`,
    permanent: true,
    target: { kind: "path", text: path }
  })

  it.effect("judges files of file tools and of commands by their absolute path", () =>
    Effect.gen(function* () {
      const { decide, run } = yield* scene({
        deny: ["write_file(secrets/**)", "read_file(**/.env)", "read_file(~/private/**)"],
        ask: ["patch(*.lock)"]
      })
      const table: ReadonlyArray<readonly [tool: string, path: string, decision: string]> = [
        ["write_file", "secrets/a", "deny"],
        ["write_file", "./x/../secrets/a/b", "deny"],
        ["write_file", "/work/app/secrets/a", "deny"],
        ["patch", "secrets/a", "deny"],
        ["read_file", "secrets/a", "allow"],
        ["write_file", "secretsX", "allow"],
        ["write_file", "x/secrets/a", "allow"],
        ["read_file", ".env", "deny"],
        ["read_file", "a/b/.env", "deny"],
        ["read_file", "a/.env.example", "allow"],
        ["read_file", "~/private/x", "deny"],
        ["patch", "npm.lock", "ask"],
        ["write_file", "npm.lock", "allow"],
        ["patch", "a/npm.lock", "allow"]
      ]
      for (const [tool, path, decision] of table)
        assert.strictEqual(yield* decide(tool, { path }), decision, `${tool} ${path}`)
      assert.strictEqual(yield* run("echo x > secrets/a"), "deny")
      assert.strictEqual(yield* run("cd secrets && echo x > a"), "deny")
      assert.strictEqual(yield* run("cat a/.env"), "deny")
      const moved = "*** Begin Patch\n*** Update File: a\n*** Move to: secrets/a\n@@\n-x\n+y\n*** End Patch"
      assert.strictEqual(yield* decide("patch", { mode: "patch", patch: moved }), "deny")
    })
  )

  it.effect("lifts the question about a place outside, and no other question about a file", () =>
    Effect.gen(function* () {
      const { decide } = yield* scene({ allow: ["write_file(/srv/site/**)"] })
      const write = (path: string, concern: Concern) => decide("write_file", { path }, { concerns: [concern] })
      assert.strictEqual(yield* write("/srv/site/a.html", outside("/srv/site/a.html")), "allow")
      assert.strictEqual(yield* write("/srv/site/../x", outside("/srv/x")), "ask")
      assert.strictEqual(
        yield* write("/srv/site/.git/hooks/x", { ...outside("/srv/site/.git/hooks/x"), key: "change of git hooks: x" }),
        "ask"
      )
      assert.strictEqual(yield* write("/srv/site/a", { key: "a plugin requests an approval", permanent: false }), "ask")
    })
  )

  it.effect("judges a path and what its links lead to", () =>
    Effect.gen(function* () {
      const hooks = yield* Hooks.make()
      const rules = yield* Permissions.fromSettings({
        allow: ["write_file(/srv/site/**)"],
        ask: [],
        deny: ["read_file(/etc/**)"]
      })
      const permissions = { ...rules, real: (path: string) => Effect.succeed(path.replace("/srv/site/link", "/etc")) }
      const approvals = ApprovalOrder.make({ hooks, permissions })
      const check = (tool: string, path: string, concerns: ReadonlyArray<Concern> = []) =>
        Effect.map(approvals.check({ tool, args: { path }, concerns }), ({ _tag }) => _tag)
      assert.strictEqual(yield* check("read_file", "/srv/site/link/passwd"), "Refusal")
      assert.strictEqual(yield* check("write_file", "/srv/site/link/x", [outside("/etc/x")]), "Refusal")
      assert.strictEqual(yield* check("write_file", "/srv/site/x", [outside("/srv/site/x")]), "Permit")
    })
  )

  it.effect("judges hosts of addresses and of clients, and questions of a sandbox about hosts", () =>
    Effect.gen(function* () {
      const { approvals, decide, run } = yield* scene(
        { allow: ["web(docs.example)"], ask: ["web(*.example.org)"], deny: ["web(evil.example)"] },
        { unknownCommands: "allow" }
      )
      const reach = (url: string) => {
        const { hostname, port } = new URL(url)
        const host = port === "" ? hostname : `${hostname}:${port}`
        return decide(
          "web_extract",
          { urls: [url] },
          { isReadonly: true, concerns: [{ key: "host", permanent: true, target: { kind: "host", text: host } }] }
        )
      }
      assert.deepStrictEqual(
        yield* all(
          [
            "https://docs.example/x",
            "https://docs.example:8443/",
            "https://x.docs.example/",
            "https://docs.example.evil.org/",
            "https://evil.example/",
            "https://evil.example:99/",
            "https://EVIL.example./"
          ],
          reach
        ),
        [
          ["https://docs.example/x", "allow"],
          ["https://docs.example:8443/", "ask"],
          ["https://x.docs.example/", "ask"],
          ["https://docs.example.evil.org/", "ask"],
          ["https://evil.example/", "deny"],
          ["https://evil.example:99/", "deny"],
          ["https://EVIL.example./", "deny"]
        ]
      )
      assert.strictEqual(
        yield* decide(
          "web_extract",
          { urls: ["https://docs.example/", "https://evil.example/"] },
          { isReadonly: true }
        ),
        "deny"
      )
      assert.strictEqual(
        yield* decide("web_extract", { urls: ["https://a.example.org/"] }, { isReadonly: true }),
        "ask"
      )
      assert.strictEqual(
        yield* decide("web_extract", { urls: ["https://example.org/"] }, { isReadonly: true }),
        "allow"
      )
      assert.strictEqual(yield* run("curl https://evil.example/x"), "deny")
      const asked = (host: string) =>
        Effect.map(
          approvals.request({
            tool: "terminal",
            command: "x",
            concerns: [{ key: "host", permanent: true, target: { kind: "host", text: host } }]
          }),
          ({ outcome }) => outcome
        )
      assert.deepStrictEqual(
        [yield* asked("docs.example"), yield* asked("evil.example"), yield* asked("other.example")],
        ["once", "deny", "deny"]
      )
    })
  )

  it.effect("judges tools of servers by server and by name", () =>
    Effect.gen(function* () {
      const { decide } = yield* scene({
        allow: ["mcp__git", "mcp__hub__get_file", "deploy"],
        deny: ["mcp__git__reset", "mcp__bad__*"]
      })
      const call = (tool: string) => decide(tool, {}, { concerns: [{ key: "may change", permanent: true }] })
      assert.deepStrictEqual(
        yield* all(
          [
            "mcp__git__log",
            "mcp__git__reset",
            "mcp__gitx__log",
            "mcp__hub__get_file",
            "mcp__hub__put_file",
            "mcp__bad__x"
          ],
          call
        ),
        [
          ["mcp__git__log", "allow"],
          ["mcp__git__reset", "deny"],
          ["mcp__gitx__log", "ask"],
          ["mcp__hub__get_file", "allow"],
          ["mcp__hub__put_file", "ask"],
          ["mcp__bad__x", "deny"]
        ]
      )
      assert.strictEqual(yield* decide("deploy", {}, { concerns: [changes] }), "allow")
    })
  )
})

describe("PermissionRule", () => {
  it("reads the forms that it names, and says of every other what is expected", () => {
    const good = [
      "terminal",
      "terminal(npm test)",
      "terminal(npm test:*)",
      "terminal(npm run *)",
      "terminal(*)",
      "read_file(src/**)",
      "write_file(~/x/*.md)",
      "web(example.com)",
      "web(*.example.com:8080)",
      "mcp__a",
      "mcp__a__*",
      "mcp__a__b",
      "execute_code"
    ]
    for (const text of good) assert.isTrue(Result.isSuccess(PermissionRule.parse(text, "allow")), text)
    const bad = [
      "",
      "*",
      "terminal(",
      "terminal()",
      "terminal(npm * test)",
      "terminal(a && b)",
      "terminal(a | b)",
      "terminal($X)",
      "(x)",
      "Bash(npm test)",
      "web(https://example.com/x)",
      "web(*)",
      "execute_code(x)",
      "mcp__a__*(x)",
      "mcp__*",
      "read_file([a])",
      "a b",
      "terminal(x) y"
    ]
    for (const text of bad) {
      const parsed = PermissionRule.parse(text, "allow")
      assert.isTrue(Result.isFailure(parsed), text)
      if (Result.isFailure(parsed)) assert.include(parsed.failure, `expected ${PermissionRule.forms}`)
    }
    assert.isTrue(Result.isSuccess(PermissionRule.parse("*", "deny")))
  })

  it.effect(
    "allows nothing by a rule that cannot be read, and refuses or asks about all that is not known to read",
    () =>
      Effect.gen(function* () {
        const broken = ["terminal(git"]
        const allow = yield* scene({ allow: broken })
        assert.deepStrictEqual(yield* all(["make", "ls"], allow.run), [
          ["make", "ask"],
          ["ls", "allow"]
        ])
        const deny = yield* scene({ deny: broken, allow: ["terminal"] })
        assert.deepStrictEqual(yield* all(["make", "ls"], deny.run), [
          ["make", "deny"],
          ["ls", "allow"]
        ])
        assert.deepStrictEqual(
          [
            yield* deny.decide("write_file", { path: "a" }),
            yield* deny.decide("read_file", { path: "a" }),
            yield* deny.decide("mcp__a__b", {})
          ],
          ["deny", "allow", "deny"]
        )
        const ask = yield* scene({ ask: broken, allow: ["terminal"] })
        assert.deepStrictEqual(yield* all(["make", "ls"], ask.run), [
          ["make", "ask"],
          ["ls", "allow"]
        ])
        const { of } = yield* Permissions.fromSettings({ allow: ["x("], ask: [], deny: [] })
        const { problems } = yield* of(undefined)
        assert.deepStrictEqual(problems, [
          `permissions: permissions.allow[0]: "x(" is not a rule: its bracket is not closed; expected ${PermissionRule.forms}. It allows nothing.`
        ])
        const reasons: ReadonlyArray<readonly [rule: string, reason: string]> = [
          ["terminal(git status", "its bracket is not closed"],
          ["terminal(git) now", "it has text behind its brackets"],
          ["terminal (git)", "it has a space before its bracket"],
          ["(git)", "it does not begin with the name of a tool"]
        ]
        for (const [rule, reason] of reasons)
          assert.deepStrictEqual(
            PermissionRule.parse(rule, "allow"),
            Result.fail(`${reason}; expected ${PermissionRule.forms}`)
          )
      })
  )
})

/** A reference for globs of paths, by recursion. */
const reference = (glob: ReadonlyArray<string>, path: ReadonlyArray<string>): boolean => {
  const [name, ...rest] = glob
  if (name === undefined) return path.length === 0
  if (name === "**") return reference(rest, path) || (path.length > 0 && reference(glob, path.slice(1)))
  return path.length > 0 && Glob.isMatch(name, path[0] ?? "") && reference(rest, path.slice(1))
}

/** All lists of up to three of some names. */
const lists = (names: ReadonlyArray<string>): ReadonlyArray<ReadonlyArray<string>> => {
  const one = names.map((name) => [name])
  const longer = (shorter: ReadonlyArray<ReadonlyArray<string>>) =>
    shorter.flatMap((list) => names.map((name) => [...list, name]))
  const two = longer(one)
  return [...one, ...two, ...longer(two)]
}

describe("Globs of paths", () => {
  it("match what a reference matches, for every glob and path of up to three names", () => {
    const base = { folder: "/", home: undefined }
    for (const glob of lists(["a*", "?", "*", "**"])) {
      for (const path of lists(["a", "ab"])) {
        assert.strictEqual(
          PermissionRule.isPathMatch(glob.join("/"), base, `/${path.join("/")}`),
          reference(glob, path),
          `${glob.join("/")} ${path.join("/")}`
        )
      }
    }
  })
})
