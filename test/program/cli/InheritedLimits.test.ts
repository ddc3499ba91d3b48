// A program that a tool of a run started has the limits of that run, whatever it is told.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync } from "node:fs"
import * as InheritedLimits from "../../../src/base/config/InheritedLimits.ts"
import { machine, program } from "../../support/hermes.ts"
import * as Pseudo from "../../support/pseudoTerminal.ts"

const turns = (...commands: ReadonlyArray<string>): string =>
  JSON.stringify({
    turns: [
      ...commands.map((command) => ({ tool_calls: [{ name: "terminal", arguments: { command } }] })),
      { text: "done" }
    ]
  })

const limited = (more: Partial<InheritedLimits.Limits> = {}) => ({
  [InheritedLimits.variable]: InheritedLimits.encodeLimits({ ...InheritedLimits.strictest, roots: ["/"], ...more })
})

describe("a started hermes", () => {
  it.live("gets the limits of the run: its mode, its lists, its directory, one deeper", () =>
    Effect.gen(function* () {
      const { cwd, hermes, keep, put } = yield* machine
      keep("config.yaml", "approvals: { deny: ['npm publish*'] }\ncommand_allowlist: ['git push*']\n")
      put("turns.yaml", turns("printenv HERMES_LIMITS"))
      const { stdout } = yield* hermes(["-q", "go", "--script", "turns.yaml", "--format", "stream-json"])
      const output =
        stdout
          .split("\n")
          .filter((line) => line.includes('"tool_result"'))
          .map((line) => String(JSON.parse(line).output))[0] ?? ""
      const limits = InheritedLimits.readLimits({ HERMES_LIMITS: String(JSON.parse(output).output).trim() })
      assert.deepStrictEqual(limits, {
        ...InheritedLimits.strictest,
        unknownHosts: "ask",
        unknownCommands: "allow",
        deny: ["npm publish*"],
        allow: ["git push*"],
        roots: [cwd]
      })
    })
  )

  it.live(
    "asks although it is started with --yolo, a mode, a list or an environment that say otherwise, and says so",
    () =>
      Effect.gen(function* () {
        const { at, hermes, keep, put } = yield* machine
        put("turns.yaml", turns("rm -r keep"))
        put("keep/file", "x")
        const ways: ReadonlyArray<readonly [args: ReadonlyArray<string>, config: string, env: Record<string, string>]> =
          [
            [["--yolo"], "{}", {}],
            [[], "approvals: { mode: off }", {}],
            [[], "approvals: { single_query_mode: approve }", {}],
            [[], "command_allowlist: ['rm *']", {}],
            [[], "{}", { HERMES_APPROVALS__MODE: "off" }],
            [["--yolo"], "{}", { HERMES_LIMITS: "not what it should be" }],
            [["--yolo"], "{}", { HERMES_LIMITS: "" }]
          ]
        for (const [args, config, env] of ways) {
          keep("config.yaml", config)
          const ended = yield* hermes(["-q", "go", "--script", "turns.yaml", ...args], {
            env: { ...limited(), ...env }
          })
          assert.isTrue(existsSync(at("keep/file")), JSON.stringify([args, config, env]) + ended.stderr)
          if (args.includes("--yolo"))
            assert.include(ended.stderr, "does not hold here; the run of hermes that started this one asks (manual)")
        }
        keep("config.yaml", "{}")
        yield* hermes(["-q", "go", "--script", "turns.yaml", "--yolo"])
        assert.isFalse(existsSync(at("keep/file")))
      })
  )

  it.live("writes in the directories of the run that started it, not in those that it is started in", () =>
    Effect.gen(function* () {
      const { cwd, hermes, put } = yield* machine
      put("turns.yaml", turns("echo x > /opt/nobody-made-this.txt"))
      put(
        "write.yaml",
        JSON.stringify({
          turns: [
            { tool_calls: [{ name: "write_file", arguments: { path: "/opt/nobody-made-this.txt", content: "x" } }] },
            { text: "done" }
          ]
        })
      )
      const written = yield* hermes(["-q", "go", "--script", "write.yaml", "--format", "stream-json"], {
        env: limited({ roots: [cwd] })
      })
      assert.include(written.stdout, "write outside of the working tree")
      const inside = yield* hermes(["-q", "go", "--script", "turns.yaml", "--format", "stream-json"], {
        env: limited({ roots: [cwd] })
      })
      assert.include(inside.stdout, "command that is not known to only read")
    })
  )

  it.live("starts no run when it is too deep, and no conversation", () =>
    Effect.gen(function* () {
      const { cwd, hermes, home } = yield* machine
      const deep = yield* hermes(["-Q", "-q", "go"], { env: limited({ depth: 3 }) })
      assert.deepStrictEqual([deep.code, deep.stdout], [2, ""])
      assert.include(
        deep.stderr,
        "Error: hermes was started by a run that hermes started itself, 3 deep; 2 is the limit."
      )
      if (Pseudo.launcher === undefined) return
      const line = `cd '${cwd}' && '${process.execPath}' '${program}'`
      const terminal = yield* Pseudo.open(Pseudo.launcher, line, { HERMES_HOME: home, HOME: cwd, ...limited() })
      yield* terminal.until("This process was started by another run")
      yield* terminal.exited
    }).pipe(Effect.scoped)
  )
})
