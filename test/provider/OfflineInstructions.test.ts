import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import type { Action, Instruction } from "../../src/provider/offline/Instruction.ts"
import * as Instructions from "../../src/provider/offline/Instructions.ts"
import { prop } from "../support/property.ts"

const replies = (text: string): ReadonlyArray<string> =>
  Instructions.parse(text).map((one) => one.type === "reply" ? one.text : one.type)

const actions = (text: string): ReadonlyArray<Action> =>
  Instructions.parse(text).flatMap((one) => one.type === "act" ? [one.action] : [])

const types = (text: string): ReadonlyArray<Instruction["type"]> => Instructions.parse(text).map(({ type }) => type)

describe("Offline instructions", () => {
  it("finds the text of a reply", () => {
    const cases: ReadonlyArray<readonly [said: string, reply: string]> = [
      ["Reply exactly ok", "ok"],
      ["Reply exactly ok.", "ok"],
      ["reply with exactly: parallel tools complete.", "parallel tools complete."],
      ["Please reply with the single word pong and nothing else.", "pong"],
      ["Reply with exactly \"Hi there.\"", "Hi there."],
      ["Reply with exactly \"Hi there.\" and nothing else.", "Hi there."],
      ["Respond with only 'yes'", "yes"],
      ["Answer only: 42", "42"],
      ["Say hello", "hello"],
      ["Could you say `run ls`?", "run ls"],
      ["Repeat after me: one, two and three", "one, two and three"],
      ["Echo back: xyz", "xyz"],
      ["Output exactly done!", "done!"],
      ["Reply exactly: Hello there. How are you?", "Hello there. How are you?"],
      ["Reply with exactly:\nfirst line\nrun away\n", "first line\nrun away"],
      ["Reply with exactly:\n```text\na\n  b\n```", "a\n  b"],
      ["Reply exactly wait...", "wait..."],
      ["Reply exactly it's fine", "it's fine"]
    ]
    for (const [said, reply] of cases) assert.deepStrictEqual(replies(said), [reply], said)
  })

  it("leaves alone what only looks like a reply", () => {
    for (const said of ["Reply to this e-mail", "Respond in French", "Answer the question: what is 2 + 2?"]) {
      assert.notInclude(types(said), "reply", said)
    }
  })

  it("knows when the answer is what a tool gave", () => {
    for (
      const said of [
        "Then reply with exactly the command output.",
        "Reply with the output",
        "Respond with only its contents",
        "Print exactly what it printed",
        "Return just the result of the command",
        "Repeat it."
      ]
    ) assert.deepStrictEqual(types(said), ["reply-output"], said)
    assert.deepStrictEqual(Instructions.parse("Reply with exactly the contents of a.txt."), [
      { type: "reply-output", of: { type: "read", paths: ["a.txt"] } }
    ])
    assert.deepStrictEqual(Instructions.parse("Tell me the output of `date -u`"), [
      { type: "show", of: { type: "run", commands: ["date -u"] } }
    ])
  })

  it("reads requests about files", () => {
    const cases: ReadonlyArray<readonly [said: string, action: Action]> = [
      ["Read a.txt", { type: "read", paths: ["a.txt"] }],
      ["Can you please read the file notes?", { type: "read", paths: ["notes"] }],
      ["cat `my notes.txt`", { type: "read", paths: ["my notes.txt"] }],
      ["Show me a.txt, b.txt and src/c", { type: "read", paths: ["a.txt", "b.txt", "src/c"] }],
      ["What is in src/a.ts?", { type: "read", paths: ["src/a.ts"] }],
      ["What does README.md say?", { type: "read", paths: ["README.md"] }],
      ["Read lines 10 to 20 of a.txt", { type: "read", paths: ["a.txt"], offset: 10, limit: 11 }],
      ["Read lines 3-4 of a.txt", { type: "read", paths: ["a.txt"], offset: 3, limit: 2 }],
      ["Show me the first 5 lines of a.txt", { type: "read", paths: ["a.txt"], limit: 5 }],
      ["Summarise README.md", { type: "read", paths: ["README.md"], digest: true }],
      ["Write \"hello\" to a.txt", { type: "write", path: "a.txt", content: "hello" }],
      ["write hello world into notes.txt.", { type: "write", path: "notes.txt", content: "hello world" }],
      ["Create a file hello.txt with the content \"Hi.\"", { type: "write", path: "hello.txt", content: "Hi." }],
      ["create hello.py containing print('hi')", { type: "write", path: "hello.py", content: "print('hi')" }],
      ["Create a file named `a b.txt` that says hi", { type: "write", path: "a b.txt", content: "hi" }],
      ["Create an empty file x.txt", { type: "write", path: "x.txt", content: "" }],
      ["Write the following to a.txt:\none\ntwo. Read on", { type: "write", path: "a.txt", content: "one\ntwo. Read on" }],
      ["Replace foo with bar in a.txt", { type: "replace", path: "a.txt", from: "foo", to: "bar" }],
      ["change \"a b\" to \"c\" in src/x.ts", { type: "replace", path: "src/x.ts", from: "a b", to: "c" }]
    ]
    for (const [said, action] of cases) assert.deepStrictEqual(actions(said), [action], said)
  })

  it("reads requests to list and to search", () => {
    const cases: ReadonlyArray<readonly [said: string, action: Action]> = [
      ["List the files", { type: "list", path: ".", pattern: "*" }],
      ["list files in src", { type: "list", path: "src", pattern: "*" }],
      ["List the files in the directory `my dir`", { type: "list", path: "my dir", pattern: "*" }],
      ["Show me all files in the current directory", { type: "list", path: ".", pattern: "*" }],
      ["What files are in src/?", { type: "list", path: "src/", pattern: "*" }],
      ["ls src/domain", { type: "list", path: "src/domain", pattern: "*" }],
      ["List all *.ts files in src", { type: "list", path: "src", pattern: "*.ts" }],
      ["Find files named \"*.md\" in docs", { type: "list", path: "docs", pattern: "*.md" }],
      ["Search for TODO in src", { type: "search", pattern: "TODO", path: "src" }],
      ["search for \"foo bar\" in the files in src/", { type: "search", pattern: "foo bar", path: "src/" }],
      ["Search src for Effect.gen", { type: "search", pattern: "Effect.gen", path: "src" }],
      ["find all occurrences of hello in this directory", { type: "search", pattern: "hello", path: "." }],
      ["grep needle haystack.txt", { type: "search", pattern: "needle", path: "haystack.txt" }],
      ["Search for the text needle", { type: "search", pattern: "needle", path: "." }],
      ["Search the codebase for 'TODO' comments", { type: "search", pattern: "TODO", path: "." }],
      ["Which files contain the word needle?", { type: "search", pattern: "needle", path: "." }],
      ["Show the contents of the directory src", { type: "list", path: "src", pattern: "*" }],
      ["Search the web for effect systems", { type: "web", query: "effect systems" }]
    ]
    for (const [said, action] of cases) assert.deepStrictEqual(actions(said), [action], said)
  })

  it("reads commands letter by letter", () => {
    const cases: ReadonlyArray<readonly [said: string, commands: ReadonlyArray<string>]> = [
      ["run ls -la", ["ls -la"]],
      ["Run `echo hi`.", ["echo hi"]],
      ["Execute the command: git log --format=\"%h %s\" -n 1", ["git log --format=\"%h %s\" -n 1"]],
      ["Run the command `printf x` using the terminal tool.", ["printf x"]],
      ["run printf 'a. b, then c' in the terminal", ["printf 'a. b, then c'"]],
      ["Run `a` and `b`", ["a", "b"]],
      ["Run \"my program\" --fast", ["\"my program\" --fast"]],
      ["Run\n```sh\necho 1\necho 2\n```", ["echo 1\necho 2"]],
      ["What is the output of `uname`?", ["uname"]],
      ["In the terminal, run date", ["date"]]
    ]
    for (const [said, commands] of cases) assert.deepStrictEqual(actions(said), [{ type: "run", commands }], said)
    assert.deepStrictEqual(types("Run the tests"), ["unclear"])
  })

  it("reads notes and delegations", () => {
    assert.deepStrictEqual(actions("Add a todo: buy milk"), [{ type: "todo", items: ["buy milk"] }])
    assert.deepStrictEqual(actions("add buy milk to my todo list"), [{ type: "todo", items: ["buy milk"] }])
    assert.deepStrictEqual(actions("Create a todo list with: a, b and c"), [{ type: "todo", items: ["a", "b", "c"] }])
    assert.deepStrictEqual(actions("Show my todos"), [{ type: "todo", items: [] }])
    assert.deepStrictEqual(actions("Remember that I like tea."), [{ type: "remember", text: "I like tea" }])
    assert.deepStrictEqual(actions("Delegate to a subagent: read a.txt and reply with its contents"), [
      { type: "delegate", goal: "Read a.txt and reply with its contents." }
    ])
  })

  it("reads which tool to use, how often and with what", () => {
    assert.deepStrictEqual(Instructions.parse("Use the lookup tool exactly twice."), [
      { type: "use", manner: { tool: "lookup", times: 2, together: false } }
    ])
    const call = (said: string) =>
      actions(said).map((action) => action.type === "call" ? [action.tool, action.text] : action)
    assert.deepStrictEqual(call("Call the double tool with {\"n\": 21, \"why\": \"Run. It\"}"), [
      ["double", "{\"n\": 21, \"why\": \"Run. It\"}"]
    ])
    assert.deepStrictEqual(call("Use double_it on 4 and then reply with the result"), [["double_it", "4"]])
    assert.deepStrictEqual(actions("Using the terminal tool, run date"), [{ type: "run", commands: ["date"] }])
    assert.deepStrictEqual(actions("Use the todo tool to add buy milk"), [{ type: "todo", items: ["buy milk"] }])
  })

  it("reads which files a tool is used on", () => {
    const read: ReadonlyArray<Action> = [{ type: "read", paths: ["a.txt", "./b.txt"] }]
    for (
      const said of [
        "Use exactly two read_file tool calls in the same assistant message, for a.txt and ./b.txt.",
        "Use exactly two read_file tool calls in the same assistant message: one for a.txt and one for ./b.txt.",
        "Use the read_file tool on a.txt and ./b.txt"
      ]
    ) assert.deepStrictEqual(actions(said), read, said)
  })

  it("reads how an action is done, said behind it", () => {
    const manner = (said: string) => Instructions.parse(said).map((one) => one.type === "act" ? one.manner : one.type)
    assert.deepStrictEqual(manner("Read a.txt and b.txt in parallel"), [
      { tool: undefined, times: undefined, together: true }
    ])
    assert.deepStrictEqual(manner("Run `date` twice"), [{ tool: undefined, times: 2, together: false }])
    assert.deepStrictEqual(manner("Run `date` via the terminal tool"), [
      { tool: "terminal", times: undefined, together: false }
    ])
  })

  it("finds the task in what a subagent is told", () => {
    const told = [
      "You are a subagent. Your task: Run the command `printf x` using the terminal tool.\n\nWorkspace: /tmp/x\n\nWhen finished, provide a concise summary of what you did.",
      "YOUR TASK:\nRun the command `printf x` using the terminal tool.\n\nCONTEXT:\nnone\n\nWhen finished, provide a clear summary of:\n- What you did\n- Any files you created"
    ]
    for (const said of told) assert.deepStrictEqual(actions(said), [{ type: "run", commands: ["printf x"] }])
  })

  it("reads what is forbidden", () => {
    assert.deepStrictEqual(Instructions.parse("Do not call terminal or read_file."), [
      { type: "forbid", tools: ["terminal", "read_file"] }
    ])
    assert.deepStrictEqual(types("List the files without using any tools"), ["act", "forbid"])
    assert.deepStrictEqual(types("Don't use any other tools."), ["remark"])
  })

  it("takes a message apart into steps", () => {
    const steps: ReadonlyArray<Instruction["type"]> = ["act", "act", "reply-output"]
    for (
      const said of [
        "Read a.txt, then run `wc -l a.txt` and reply with the output",
        "First read a.txt. After that, run `wc -l a.txt`. Finally reply with exactly the output.",
        "1. Read a.txt\n2. Run `wc -l a.txt`\n3. Reply with the output",
        "- Read a.txt\n- Run `wc -l a.txt`\n- Reply with the output",
        "Please read a.txt; run `wc -l a.txt`; reply with the output"
      ]
    ) assert.deepStrictEqual(types(said), steps, said)
  })

  it("tells questions for a model from remarks", () => {
    assert.deepStrictEqual(types("What is the capital of France?"), ["ask"])
    assert.deepStrictEqual(types("Explain monads to me."), ["ask"])
    assert.deepStrictEqual(types("This project is written in TypeScript."), ["remark"])
    assert.deepStrictEqual(types("Read notes.txt and explain it"), ["act", "ask"])
    assert.deepStrictEqual(types("Write a haiku about the sea to poem.txt"), ["unclear"])
    assert.deepStrictEqual(types("Find where foo is defined"), ["ask"])
    assert.deepStrictEqual(types("Use the terminal tool wisely and install whatever is missing"), ["unclear"])
    assert.deepStrictEqual(types("Hello!"), ["greet"])
    assert.deepStrictEqual(types(""), [])
  })
})

describe("Offline instructions from anybody", () => {
  const words = Schema.Literals([
    ..."read a.txt run `ls` write to and then , . : \n reply exactly the output use terminal tool do not call in src search for".split(" "),
    "\"", "'", "```", "\n\n", "after", "if", "with", "without", "{", "()", ""
  ])

  prop("are read without an error, and always to the end", [Schema.Array(words), Schema.String], ([said, noise]) => {
    const text = said.join(" ") + noise
    assert.isArray(Instructions.parse(text))
  })

  it("takes a dictated text as it is", () => {
    for (const text of ["a", "a b", "1. two", "and then", "read a.txt", "x (y) z", "„x“"]) {
      assert.deepStrictEqual(replies(`Reply with exactly "${text}".`), [text])
    }
  })
})
