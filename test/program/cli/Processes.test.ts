// Nothing that the program started outlives it, however it ends: processes that ignore every signal but the last one.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { ChildProcess } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { machine } from "../../support/hermes.ts"

/** A shell program that ignores signals, starts one that does so in a session of its own, and notes both. */
const stubborn = (pids: string): string =>
  "trap '' INT TERM HUP\n" +
  `mkdir -p ${pids}\n` +
  `setsid sh -c 'trap "" INT TERM HUP; echo $$ > ${pids}/far; while :; do sleep 0.1; done' &\n` +
  `echo $$ > ${pids}/near\n` +
  "while :; do sleep 0.1; done\n"

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
  } catch {
    return false
  }
  try {
    // What nobody waited for yet is dead, too.
    return !/^\d+ \(.*\) Z/u.test(readFileSync(`/proc/${pid}/stat`, "utf8"))
  } catch {
    return false
  }
}

const noted = (pids: string): ReadonlyArray<number> => {
  try {
    const all = readdirSync(pids).map((name) => Number(readFileSync(join(pids, name), "utf8")))
    return all.every((pid) => pid > 0) ? all : []
  } catch {
    return []
  }
}

const ends = {
  SIGINT: (child: ChildProcess) => child.kill("SIGINT"),
  "SIGINT, twice": (child: ChildProcess) => {
    child.kill("SIGINT")
    setTimeout(() => child.kill("SIGINT"), 100)
  },
  SIGKILL: (child: ChildProcess) => child.kill("SIGKILL")
} as const

type Machine = Effect.Success<typeof machine>

interface Scenario {
  readonly config?: string
  readonly files?: (at: Machine["at"], pids: string) => Readonly<Record<string, string>>
  readonly turns?: () => string
  readonly args?: ReadonlyArray<string>
  /** Commands before it. */
  readonly before?: ReadonlyArray<ReadonlyArray<string>>
}

const call = (name: string, args: unknown) =>
  `turns:\n  - tool_calls: [{ name: ${name}, arguments: ${JSON.stringify(args)} }]\n`
const hang = '  - tool_calls: [{ name: terminal, arguments: { command: "sleep 600" } }]\n'

const scenarios: Readonly<Record<string, Scenario>> = {
  "a command in the foreground": {
    files: (_, pids) => ({ "stuck.sh": stubborn(pids) }),
    turns: () => call("terminal", { command: "sh stuck.sh" })
  },
  "a process in the background": {
    files: (_, pids) => ({ "stuck.sh": stubborn(pids) }),
    turns: () => call("terminal", { command: "sh stuck.sh", background: true }) + hang
  },
  "a script of the model": {
    files: (_, pids) => ({ "stuck.sh": stubborn(pids) }),
    turns: () =>
      call("execute_code", {
        language: "javascript",
        code:
          `import { spawn } from "node:child_process"\n` +
          `for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => {})\n` +
          `spawn("sh", ["stuck.sh"], { stdio: "ignore" })\nsetInterval(() => {}, 1000)\n`
      })
  },
  "a shell hook": {
    config: "hooks_auto_accept: true\nhooks:\n  pre_llm_call:\n    - command: sh HOOK\n      timeout: 300\n",
    files: (_, pids) => ({ "hook.sh": stubborn(pids) }),
    turns: () => "turns: [{ text: done }]\n"
  },
  "an MCP server": {
    config: "mcp_servers:\n  stuck:\n    command: sh\n    args: [HOOK]\n",
    files: (_, pids) => ({ "hook.sh": stubborn(pids) }),
    turns: () => "turns: [{ text: done }]\n"
  },
  "the script of a scheduled job": {
    files: (_, pids) => ({ "job.sh": stubborn(pids) }),
    before: [["cron", "create", "every 2h", "--script", "job.sh", "--no-agent", "--name", "job"]],
    args: ["cron", "run", "job"]
  }
}

for (const [what, { args, before, config, files, turns }] of Object.entries(scenarios)) {
  describe(`${what}`, () => {
    for (const [how, end] of Object.entries(ends)) {
      it.live(`does not outlive the program that is ended by ${how}`, () =>
        Effect.gen(function* () {
          const { at, hermes, keep, put } = yield* machine
          const pids = at("pids")
          for (const [name, content] of Object.entries(files?.(at, pids) ?? {})) {
            put(name, content)
            keep(`scripts/${name}`, content)
          }
          if (config !== undefined) keep("config.yaml", config.replace("HOOK", at("hook.sh")))
          if (turns !== undefined) put("turns.yaml", turns())
          for (const command of before ?? []) assert.strictEqual((yield* hermes(command)).code, 0)
          let known: ReadonlyArray<number> = []
          const command = args ?? ["-q", "go", "--script", "turns.yaml", "--yolo"]
          const ended = yield* hermes(command, {
            onStart: (child) => {
              const look = setInterval(() => {
                known = noted(pids)
                if (known.length < 2) return
                clearInterval(look)
                end(child)
              }, 20)
              child.once("exit", () => clearInterval(look))
            }
          })
          assert.strictEqual(known.length, 2, `${ended.stdout}${ended.stderr}`)
          assert.strictEqual(ended.signal ?? ended.code, how === "SIGKILL" ? "SIGKILL" : 130, ended.stderr)
          while (known.some(isAlive)) yield* Effect.sleep(20)
        })
      )
    }
  })
}
