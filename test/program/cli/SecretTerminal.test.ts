// The interactive session of the real program on a real terminal: the model, tools, a plugin, children and processes in
// the background repeat every value that the program holds; nothing of them is on the screen, in a request or in a
// file.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { program } from "../../support/hermes.ts"
import { encoded, selectedForeignKeys, selectedKeys } from "../../support/plantedKeys.ts"
import { launcher, open } from "../../support/pseudoTerminal.ts"
import { everything, plantedText } from "../../support/secretSearch.ts"
import { eventually } from "../../support/waiting.ts"
import { type Asked, call, user, withoutAnswers } from "../../support/secretWorld.ts"
import type { WireTurn } from "../../support/wireModel.ts"

const quoted = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`

const sequence = new RegExp(String.raw`\u001b(?:\[[\d;?]*[A-Za-z]|\]8;;[^\u001b]*\u001b\\)`, "g")

/** What was drawn, without colours and movements of the cursor. */
const drawn = (written: string): string => written.replaceAll(sequence, "")

const held = (kind: string): string => selectedKeys.find(([name]) => name === kind)?.[1] ?? ""
const foreign = (kind: string): string => selectedForeignKeys.find(([name]) => name === kind)?.[1] ?? ""

/** A key that the user types and the program does not hold. */
const typed = "sk_live_uSeRtYpEd0123456789abcd"

/** A pause in typing: what is typed at once after an answer is no answer to the next question. */
const settled = Effect.promise(() => new Promise<void>((resolve) => setTimeout(resolve, 1_000)))

/** Values in a line; a sink that shows the beginnings of lines is to show values at its edge too. */
const inLine = Object.values(encoded)
  .map((encode) => encode(held("telegram")))
  .join(" ")
  .replaceAll(/\s+/g, " ")

/** A plugin that prints in every way, when it is loaded and when its tool is called. */
const plugin = (planted: (name: string) => string) => `
import { readFileSync, writeSync } from "node:fs"
const text = readFileSync(${JSON.stringify(planted("all.txt"))}, "utf8")
const print = (when) => {
  console.log("log " + when + " " + text)
  console.error("error " + when + " " + text)
  process.stdout.write("stream " + when + " " + text + "\\n")
  writeSync(1, "descriptor " + when + " " + text + "\\n")
}
export const register = (ctx) => {
  print("at load")
  ctx.registerTool({ name: "printer", description: "Prints. " + text, parameters: { type: "object", properties: {} }, readonly: true, handler: () => {
    print("in a call")
    void Promise.reject(new Error("nobody looks at this: " + text))
    return "printed"
  } })
  ctx.registerCommand("tellall", () => text, { description: "Tells " + text })
  ctx.registerHook("post_tool_call", () => { throw new Error("the hook broke: " + text) })
}`

const question = `Which of these is it?\n${everything}`

const parent: ReadonlyArray<WireTurn> = [
  { thought: everything, calls: [call("p1", "printer", {}), call("r1", "read_file", { path: "planted/all.txt" })] },
  { calls: [call("t1", "terminal", { command: `rm -r ./scratch; cat <<'END'\n${plantedText(0, 4)}\nEND` })] },
  { calls: [call("q1", "clarify", { question, choices: [inLine, `the other ${plantedText(0, 1)}`] })] },
  {
    calls: [
      call("b1", "terminal", {
        command: `echo ${held("aws")} ${foreign("aws")} >/dev/null; cat planted/all.txt; while [ ! -e go ]; do sleep 0.05; done; cat planted/all.txt`,
        background: true,
        notify_on_complete: true,
        watch_patterns: [":"]
      }),
      call("d1", "delegate_task", {
        goal: `look around for ${"x".repeat(230)} ${inLine}`,
        context: everything,
        background: true
      })
    ]
  },
  { text: `I found this.\n${everything}\nThat is all.` }
]

const said = ({ messages }: Asked): string =>
  JSON.stringify(messages.findLast(({ role }) => role === "user")?.content ?? "")

const turnOf = (asked: Asked, body: string): WireTurn => {
  if (body.includes("a title of three to seven words")) return { text: `Keys ${held("aws")} and ${foreign("aws")}` }
  const last = said(asked)
  if (last.includes("You work on your own")) {
    return asked.messages.some(({ role }) => role === "tool")
      ? { text: `The child saw:\n${everything}` }
      : {
          calls: [
            call("c1", "terminal", {
              command: `echo ${held("aws")}; while [ ! -e go ]; do sleep 0.05; done; cat planted/all.txt`
            })
          ]
        }
  }
  if (last.includes("[The background process") || last.includes("[Report of the background")) return { text: "Noted." }
  if (!last.includes("begin here")) return { text: `You said something. ${everything}` }
  return parent[asked.messages.filter(({ role }) => role === "assistant").length] ?? { text: "Nothing more." }
}

describe.skipIf(launcher === undefined)("an interactive session", () => {
  it.live("shows no value that it holds: questions, tools, plugins, background work, titles", () =>
    Effect.gen(function* () {
      if (launcher === undefined) return
      const { cwd, hermes, home, leaks, put, search, searchFiles, sent } = yield* user({
        turnOf,
        plugin,
        settings: [
          "display:",
          "  tool_progress: verbose",
          "  show_reasoning: true",
          "approvals:",
          "  mode: manual",
          "quick_commands:",
          "  deploy:",
          "    type: exec",
          `    command: ${JSON.stringify(`curl -H 'Authorization: Bearer ${foreign("github fine-grained")}' ${inLine}`)}`
        ]
      })
      put("planted/all.txt", everything)
      const launch = launcher
      const terminal = (...args: ReadonlyArray<string>) =>
        open(
          launch,
          `cd ${quoted(cwd)}; exec ${[process.execPath, program, "chat", ...args].map(quoted).join(" ")}`,
          { NO_COLOR: "1", HERMES_HOME: home, HOME: cwd },
          400
        )
      const { exited, screen, type, until, written } = yield* terminal()
      yield* until("›")
      yield* type("begin here\r")
      yield* until("or type a reason to refuse")
      yield* type("n\r")
      yield* until("or type your own answer")
      yield* settled
      yield* type("1\r")
      yield* until("That is all.")
      // The process in the background printed what was watched for.
      yield* until("Noted.")
      for (const command of ["/agents", "/help", "/history", "/status", "/tools list"]) {
        yield* type(`${command}\r`)
        yield* until(`› ${command}`)
      }
      yield* type("!cat planted/all.txt; echo shell is done\r")
      yield* until("exit 0")
      put("go", "")
      // Two reports: each is a message of its own, or is told with the other one.
      yield* eventually(
        "both are reported",
        Effect.sync(() =>
          ["[Report of the background delegation", "exited with code 0"].every((report) =>
            sent.some((body) => body.includes(report))
          )
        )
      )
      yield* type("/tellall\r")
      yield* until("› /tellall")
      yield* type(`my own key is ${typed}\r`)
      yield* until("You said something")
      yield* type("/title\r")
      yield* until("› /title")
      yield* type("/sessions\r")
      yield* until("› /sessions")
      yield* type("/quit\r")
      assert.strictEqual(yield* exited, 0, screen())
      const shown = drawn(written())
      // Every sink got its text, so that nothing is clean for being empty.
      for (const sink of [
        "log at load",
        "error in a call",
        "stream in a call",
        "descriptor in a call",
        "nobody looks at this",
        "the hook broke",
        "Run this command?",
        "Which of these",
        "look around"
      ])
        assert.include(shown, sink)
      search("terminal", shown)
      search("requests", sent.map(withoutAnswers).join("\n"))
      searchFiles()
      const again = yield* terminal("--continue")
      yield* again.until("Resumed")
      yield* again.type("/history\r")
      yield* again.until("› /history")
      yield* again.type("/quit\r")
      assert.strictEqual(yield* again.exited, 0, again.screen())
      search("resumed", drawn(again.written()))
      assert.include(again.written(), "my own key is")
      assert.notInclude(again.written(), typed)
      for (const command of [
        ["sessions", "list"],
        ["sessions", "list", "--json"],
        ["sessions", "export", "-"]
      ]) {
        const { stderr, stdout } = yield* hermes(command)
        search(command.join(" "), stdout + stderr)
      }
      const titles = sent.filter((body) => body.includes("a title of three to seven words"))
      assert.strictEqual(titles.length, 1)
      assert.deepStrictEqual(leaks(), [])
    }).pipe(Effect.scoped)
  )
})
