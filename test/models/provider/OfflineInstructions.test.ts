import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as Instructions from "../../../src/models/provider/offline/Instructions.ts"
import { prop } from "../../support/property.ts"

const steps = (text: string) => Instructions.parseInstructions(text).steps

const answer = (text: string) => Instructions.parseInstructions(text).answer

describe("Offline instructions", () => {
  it("find the text of a reply", () => {
    const cases: ReadonlyArray<readonly [said: string, reply: string]> = [
      ["Reply exactly ok", "ok"],
      ["Reply exactly ok.", "ok"],
      ["reply with exactly: parallel tools complete.", "parallel tools complete."],
      ["Please reply with the single word pong and nothing else.", "pong"],
      ['Reply with exactly "Hi there."', "Hi there."],
      ["Respond with only 'yes'", "yes"],
      ["Answer only: 42", "42"],
      ["Say hello", "hello"],
      ["Reply exactly: Hello there. How are you?", "Hello there. How are you?"],
      ["Reply with exactly:\nfirst line\nrun away\n", "first line\nrun away"],
      ["Reply with exactly:\n```text\na\n  b\n```", "a\n  b"],
      ["Reply exactly wait...", "wait..."],
      ["Reply exactly it's fine", "it's fine"]
    ]
    for (const [said, text] of cases) {
      assert.deepStrictEqual(answer(said), { type: "text", text }, said)
      assert.deepStrictEqual(Instructions.parseInstructions(said).unclear, [], said)
    }
  })

  it("leave alone what only looks like a reply", () => {
    for (const said of ["Reply to this e-mail", "Respond in French", "Answer the question: what is 2 + 2?"]) {
      assert.strictEqual(answer(said).type, "show", said)
      assert.strictEqual(Instructions.parseInstructions(said).unclear.length, 1, said)
    }
  })

  it("know when the answer is what a tool gave", () => {
    for (const said of [
      "Run `a`. Then reply with exactly the command output.",
      "Run `a` and reply with the output",
      "Run `a`. Respond with only its contents"
    ])
      assert.deepStrictEqual([answer(said).type, steps(said)], ["output", [[{ type: "run", command: "a" }]]], said)
  })

  it("read single tasks", () => {
    const cases: ReadonlyArray<readonly [said: string, task: Instructions.Task]> = [
      ["Read a.txt", { type: "read", path: "a.txt" }],
      ["Can you please read the file notes?", { type: "read", path: "notes" }],
      ["cat `my notes.txt`", { type: "read", path: "my notes.txt" }],
      ["What is in src/a.ts?", { type: "read", path: "src/a.ts" }],
      ['Write "hello" to a.txt', { type: "write", path: "a.txt", content: "hello" }],
      ['Create a file hello.txt with the content "Hi. You"', { type: "write", path: "hello.txt", content: "Hi. You" }],
      ["List the files", { type: "list", path: ".", pattern: "*" }],
      ["list files in src", { type: "list", path: "src", pattern: "*" }],
      ["List the files in the directory `my dir`", { type: "list", path: "my dir", pattern: "*" }],
      ["List all *.ts files in src", { type: "list", path: "src", pattern: "*.ts" }],
      ["Search for TODO in src", { type: "search", pattern: "TODO", path: "src" }],
      ['search for "foo bar" in src/', { type: "search", pattern: "foo bar", path: "src/" }],
      ["Search for needle in this directory", { type: "search", pattern: "needle", path: "." }],
      ["run ls -la", { type: "run", command: "ls -la" }],
      ["Run `echo hi`.", { type: "run", command: "echo hi" }],
      ['Execute the command: git log --format="%h %s" -n 1', { type: "run", command: 'git log --format="%h %s" -n 1' }],
      ["Run the command: echo a > b; sleep 30", { type: "run", command: "echo a > b; sleep 30" }],
      ["Run the command `printf x` using the terminal tool.", { type: "run", command: "printf x" }],
      ["Use the terminal tool exactly once to run 'echo hello'.", { type: "run", command: "echo hello" }],
      ["Run\n```sh\necho 1\necho 2\n```", { type: "run", command: "echo 1\necho 2" }],
      ["Delegate to a subagent: read a.txt", { type: "delegate", goal: "Read a.txt." }],
      ['Call the double tool with {"n": 21}', { type: "call", tool: "double", arguments: { n: 21 } }],
      ['Use the double tool with {"n": 21}', { type: "call", tool: "double", arguments: { n: 21 } }]
    ]
    for (const [said, task] of cases) assert.deepStrictEqual(steps(said), [[task]], said)
  })

  it("read several files in one message, and several commands one after the other", () => {
    const read = [
      [
        { type: "read", path: "a.txt" },
        { type: "read", path: "./b.txt" }
      ]
    ]
    for (const said of [
      "Read a.txt and ./b.txt",
      "Use exactly two read_file tool calls in the same assistant message, for a.txt and ./b.txt.",
      "Use exactly two read_file tool calls in the same assistant message: one for a.txt and one for ./b.txt."
    ])
      assert.deepStrictEqual<unknown>(steps(said), read, said)
    assert.deepStrictEqual(steps("Run `a` and `b`"), [[{ type: "run", command: "a" }], [{ type: "run", command: "b" }]])
  })

  it("take a message apart into steps", () => {
    for (const said of [
      "Read a.txt, then run `wc -l a.txt` and reply with the output",
      "First read a.txt. Then run `wc -l a.txt`. Finally reply with exactly the output.",
      "1. Read a.txt\n2. Run `wc -l a.txt`\n3. Reply with the output"
    ]) {
      assert.deepStrictEqual(
        steps(said),
        [[{ type: "read", path: "a.txt" }], [{ type: "run", command: "wc -l a.txt" }]],
        said
      )
      assert.strictEqual(answer(said).type, "output", said)
    }
  })

  it("find the task in what a subagent is told", () => {
    assert.deepStrictEqual(
      steps(
        "YOUR TASK:\nRun the command `printf x` using the terminal tool.\n\nCONTEXT:\nnone\n\nWhen finished, provide a clear summary"
      ),
      [[{ type: "run", command: "printf x" }]]
    )
  })

  it("read which tools are forbidden", () => {
    assert.deepStrictEqual(
      Instructions.parseInstructions("Do not call terminal or read_file.").forbidden,
      new Set(["terminal", "read_file"])
    )
    assert.strictEqual(Instructions.parseInstructions("List the files. Do not call any tools.").forbidden, "all")
    assert.deepStrictEqual(Instructions.parseInstructions("Don't use any other tools.").forbidden, new Set())
  })

  it("keep every sentence that they do not understand", () => {
    const unclear: ReadonlyArray<readonly [said: string, sentences: ReadonlyArray<string>]> = [
      ["What is the capital of France?", ["What is the capital of France?"]],
      ["Read notes.txt and explain it", ["explain it"]],
      ["Read a.txt. Delete everything else.", ["Delete everything else"]],
      ["Run the tests", ["Run the tests"]],
      ["Use the lookup tool exactly twice.", ["use lookup"]],
      ["Call the pair tool with something", ["Call the pair tool with something"]],
      [
        "Use the terminal tool wisely and install whatever is missing",
        ["Use the terminal tool wisely and install whatever is missing"]
      ]
    ]
    for (const [said, sentences] of unclear)
      assert.deepStrictEqual(Instructions.parseInstructions(said).unclear, sentences, said)
  })
})

describe("Offline instructions from anybody", () => {
  const words = Schema.Literals([
    ..."read a.txt run `ls` write to and then , . : \n reply exactly the output use terminal tool do not call in src search for".split(
      " "
    ),
    '"',
    "'",
    "```",
    "\n\n",
    "after",
    "if",
    "with",
    "without",
    "{",
    "()",
    "\uE000",
    ""
  ])

  prop("are read without an error, and always to the end", [Schema.Array(words), Schema.String], ([said, noise]) => {
    const { steps, unclear } = Instructions.parseInstructions(said.join(" ") + noise)
    assert.isArray(steps)
    assert.isArray(unclear)
  })

  it("are read in linear time", () => {
    for (const one of ["read a.txt and ", '"', "then ", "reply ", "run `a` and ", "a, ", "use the x tool "]) {
      assert.isArray(Instructions.parseInstructions(one.repeat(20_000)).steps, one)
    }
  })

  it("take a dictated text as it is", () => {
    for (const text of ["a", "a b", "1. two", "and then", "read a.txt", "x (y) z", "„x“"]) {
      assert.deepStrictEqual(answer(`Reply with exactly "${text}".`), { type: "text", text })
    }
  })
})
