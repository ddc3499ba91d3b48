// The tasks that a user does in a terminal, for `screens.ts`: what is typed, and the answers of the model.
import type { Answer } from "./model.ts"
import type { Pane } from "./terminal.ts"

/** What a task does with the terminal; `show` keeps the screen under a name. */
export interface TaskWorld {
  readonly pane: Pane
  readonly show: (name: string) => Promise<void>
  /** Types a line and sends it. */
  readonly send: (line: string) => void
  /** Presses Esc, and waits until it is no longer the beginning of another key. */
  readonly leave: () => Promise<void>
  readonly columns: number
}

/** A conversation that shows some tasks, in a new home. */
export interface Tour {
  readonly name: string
  /** Words after the name of the program. */
  readonly words?: string
  readonly play: (world: TaskWorld) => Promise<void>
}

const use = (name: string, args: Readonly<Record<string, unknown>>): Answer => ({
  text: "",
  calls: [{ name, arguments: args }]
})
const run = (command: string): Answer => use("terminal", { command })
const numbers = 'for i in $(seq 1 40); do echo "line $i of the output"; done'

const prose =
  "# Result\n\nThe total **ignored the count** of each line. `invoice.ts` now multiplies it:\n\n" +
  "1. `total` reads `count`\n2. the test passes\n\n| article | pieces | price in cents |\n|---|--:|--:|\n" +
  "| a lamp with a long name that takes room | 3 | 2500 |\n| a chair | 12 | 900 |\n\n" +
  "```ts\nexport const total = (lines: ReadonlyArray<Line>): number => lines.reduce((sum, { cents, count }) => sum + cents * count, 0)\n```\n\nThat is all."

const wide =
  "请求已完成：所有测试都通过了，共计二十四项。接下来我会整理文件并更新说明文档，然后再检查一次构建结果。\n\n" +
  "- 한국어 문장도 줄바꿈이 되어야 합니다\n- 日本語の文章も正しく折り返される必要があります。\n- family 👨‍👩‍👧‍👦 and flag 🇩🇪 end"

const bidirectional = "הקובץ עודכן וכל הבדיקות עברו בהצלחה.\n\nتم تحديث الملف `invoice.ts` واجتازت جميع الاختبارات."

/** Answers by the beginning of the prompt: one for each request of its turn. */
export const answers: Readonly<Record<string, ReadonlyArray<Answer>>> = {
  "Say hello": [{ text: "Hello. I am ready." }],
  "Explain the fix": [
    { text: prose, reasoning: "The user wants to know about the total.\nI look at the reducer first.\nThen I write." }
  ],
  "Count lines": [run(numbers), { text: "It printed forty lines." }],
  "Run the tests": [
    run("echo 'not ok 1 - counts every piece'; echo 'expected 750, got 250' >&2; exit 3"),
    { text: "One test fails." }
  ],
  "Search for total": [use("search_files", { pattern: "total" }), { text: "It is in two files." }],
  "Search for nothing": [use("search_files", { pattern: "zebra" }), { text: "No match." }],
  "Read the file": [use("read_file", { path: "invoice.ts" }), { text: "I have read it." }],
  "Read a missing file": [use("read_file", { path: "missing.ts" }), { text: "It does not exist." }],
  "Fix the sum": [
    use("patch", {
      path: "invoice.ts",
      old_string: "(sum, { cents }) => sum + cents, 0)",
      new_string: "(sum, { cents, count }) => sum + cents * count, 0)"
    }),
    { text: "Fixed." }
  ],
  "Make a plan": [
    use("todo", {
      todos: [
        { id: "1", content: "Read the invoice", status: "completed" },
        {
          id: "2",
          content: "Correct the total, which ignores the count of each line of the invoice",
          status: "in_progress"
        },
        { id: "3", content: "Run the tests", status: "pending" }
      ]
    }),
    { text: "That is the plan." }
  ],
  "Push it": [run("git push origin main"), { text: "That was the push." }],
  "Install it": [
    run(
      "set -e\nfor d in one two three; do\n  curl -fsSL https://example.com/install-with-a-long-name-that-does-not-fit/$d.sh | sh\ndone\necho done"
    ),
    { text: "That was the installation." }
  ],
  "Wait long": [run("sleep 60"), { text: "It is over." }],
  "Which colour": [
    use("clarify", {
      question: "Which colour shall the button have?",
      choices: ["red", "blue, as in the design of the last year"]
    }),
    { text: "I note it." }
  ],
  "Write Chinese": [{ text: wide }],
  "Write Hebrew": [{ text: bidirectional }],
  "Look at": [{ text: "It is a red square." }],
  "Write much": [
    {
      text: Array.from(
        { length: 120 },
        (_, index) => `Paragraph ${index + 1} has a few words that are wrapped on a narrow screen, and an end.`
      ).join("\n\n")
    }
  ],
  Break: [{ text: "", status: 400 }],
  Delegate: [
    use("delegate_task", { goal: "Say hello to the children of the house, and report" }),
    { text: "The child has answered." }
  ],
  "Print a path": [
    run(
      "printf 'ab\\033[31mred\\033[0m\\ttab %s\\n' /usr/share/a/very/long/path/that/does/not/fit/into/a/narrow/line/of/the/terminal/file.txt"
    ),
    { text: "Printed." }
  ]
}

/** The conversations, in order. */
export const tours: ReadonlyArray<Tour> = [
  {
    name: "first",
    play: async ({ pane, send, show }) => {
      await show("start")
      send("Say hello")
      await pane.waitFor("I am ready")
      await show("hello")
      send("Explain the fix")
      await pane.waitFor("That is all")
      await show("markdown")
      send("/help")
      await show("help")
    }
  },
  {
    name: "tools",
    play: async ({ leave, pane, send, show }) => {
      const ask = async (prompt: string, end: string): Promise<void> => {
        send(prompt)
        await pane.waitFor(end)
        await show(prompt.toLowerCase().replaceAll(" ", "-"))
      }
      await ask("Count lines", "forty lines.")
      await ask("Run the tests", "One test fails.")
      await ask("Search for total", "in two files")
      await ask("Search for nothing", "No match.")
      await ask("Read the file", "have read it")
      await ask("Read a missing file", "does not exist.")
      await ask("Fix the sum", "Fixed.")
      await ask("Make a plan", "is the plan.")
      await ask("Print a path", "Printed.")
      await ask("Delegate", "child has answered")
      send("/diff")
      await show("diff")
      send("/undo")
      await show("undo")
      pane.press("C-o")
      await show("transcript")
      pane.type("q")
      send("/usage")
      await show("usage")
      send("/context")
      await show("context")
      send("/status")
      await show("status")
      send("/export html")
      await show("export")
      send("/sessions")
      await show("sessions")
      send("/resume")
      await show("resume")
      pane.press("C-a")
      await show("resume-all")
      await leave()
    }
  },
  {
    name: "approvals",
    play: async ({ pane, send, show }) => {
      send("Push it")
      await pane.waitFor("Deny")
      await show("approval")
      pane.press("Down")
      await show("approval-down")
      pane.press("Escape")
      await show("approval-escape")
      send("Install it")
      await pane.waitFor("Deny")
      await show("multi-line")
      pane.type("use the package manager instead")
      await show("reason")
      pane.press("Enter")
      await pane.waitFor("installation.")
      await show("denied")
      send("Which colour")
      await pane.waitFor("as in the design")
      await show("question")
      pane.type("2")
      pane.press("Enter")
      await pane.waitFor("I note it")
      await show("question-answered")
      send("/mode plan")
      await show("mode-plan")
      send("/permissions")
      await show("permissions")
    }
  },
  {
    name: "stop",
    play: async ({ pane, send, show }) => {
      send("/mode yolo")
      await show("yolo")
      send("Wait long")
      await pane.waitFor("sleep 60")
      send("then Say hello")
      send("and a second message that waits")
      await show("queued")
      pane.press("Escape")
      await show("stopped")
      pane.press("C-c")
      await show("cleared")
      pane.press("C-c")
      await show("exit-question")
      pane.press("C-c")
      await show("exit")
    }
  },
  {
    name: "prompt",
    play: async ({ columns, leave, pane, send, show }) => {
      pane.type("/")
      await show("slash")
      pane.type("co")
      await show("slash-co")
      pane.press("Down")
      await show("slash-down")
      pane.press("Enter")
      await show("slash-run")
      pane.press("C-u")
      pane.type("look at @inv")
      await show("file-list")
      pane.press("Tab")
      await show("file-chosen")
      pane.press("C-u")
      send("!echo one; echo two; exit 4")
      await show("shell")
      send("#prefer tabs over spaces")
      await show("memory")
      pane.type("first line")
      pane.press("M-Enter")
      pane.type("第二行：这是一段很长的中文提示，用来检查提示行的换行是否正确，光标是否在正确的位置。")
      await show("multi-line-prompt")
      pane.press("C-u", "C-c")
      pane.type("Look at @red.png please")
      await show("image-prompt")
      pane.press("Enter")
      await pane.waitFor("red square")
      await show("image-sent")
      pane.press("C-r")
      pane.type("eco")
      await show("search")
      await leave()
      send("/model")
      await show("model")
      await leave()
      send("/compact")
      await show("compact")
      send("/unknwon")
      await show("unknown")
      pane.type("a".repeat(columns * 2))
      await show("long-prompt")
    }
  },
  {
    name: "text",
    play: async ({ columns, leave, pane, send, show }) => {
      send("Write Chinese")
      await pane.waitFor("end")
      await show("chinese")
      send("Write Hebrew")
      await pane.waitFor("invoice.ts")
      await show("hebrew")
      send("Break it")
      await show("error")
      send("Write much")
      await pane.waitFor("Paragraph 120")
      await show("much")
      pane.resize(Math.max(30, columns - 20), 30)
      await show("narrower")
      pane.resize(columns, 40)
      await show("wide-again")
      send("/theme")
      await show("theme")
      await leave()
      send("/copy")
      await show("copy")
      send("/new")
      await show("new")
    }
  },
  {
    name: "plain",
    words: "--plain",
    play: async ({ pane, send, show }) => {
      send("Run the tests")
      await pane.waitFor("One test fails.")
      await show("tools")
      send("Push it")
      await pane.waitFor("Deny")
      await show("approval")
      send("4")
      await pane.waitFor("the push")
      await show("denied")
    }
  }
]
