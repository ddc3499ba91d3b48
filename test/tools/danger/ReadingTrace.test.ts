// What is known to only read is run in a sandbox under a tracer: programs with every flag of their grammars, and with
// every flag of their help that is taken for reading. `npm run test:reading` runs all of them, `npm test` a sample;
// HERMES_TEST_READING=sort,git runs two.
import { assert, describe, it } from "@effect/vitest"
import * as Danger from "../../../src/tools/danger/Danger.ts"
import { filePrograms } from "../../../src/tools/danger/reading/FilePrograms.ts"
import type { Grammar } from "../../../src/tools/danger/reading/FlagGrammar.ts"
import { subcommands } from "../../../src/tools/danger/reading/GitFlags.ts"
import { machinePrograms, verbs, versioned } from "../../../src/tools/danger/reading/MachinePrograms.ts"
import { scripted } from "../../../src/tools/danger/reading/ScriptedPrograms.ts"
import { canTrace, findWrites, quoteWord, runConfined, toLine, traceCommands, type Words } from "./tracedCommands.ts"

/** `all`, or the programs to trace. */
const traced = process.env["HERMES_TEST_READING"]?.split(",") ?? []

/** Words in front of the flags, and those that follow them. */
interface Subject {
  readonly front: Words
  readonly operands: Words
  readonly flags: ReadonlyArray<string>
}

const operandsByProgram: ReadonlyMap<string, Words> = new Map([
  ["sed", ["p", "a"]],
  ["awk", ["1", "a"]],
  ["gawk", ["1", "a"]],
  ["mawk", ["1", "a"]],
  ["grep", ["a", "a"]],
  ["egrep", ["a", "a"]],
  ["fgrep", ["a", "a"]],
  ["rg", ["a", "."]],
  ["jq", [".", "a.json"]],
  ["yq", [".", "a.json"]],
  ["tr", ["a", "b"]],
  ["diff", ["a", "b"]],
  ["cmp", ["a", "b"]],
  ["comm", ["a", "b"]],
  ["join", ["a", "b"]],
  ["unzip", ["a.zip"]],
  ["seq", ["3"]],
  ["date", []],
  ["hostname", []],
  ["env", []],
  ["numfmt", ["1"]],
  ["factor", ["6"]],
  ["cal", []],
  ["git grep", ["a"]],
  ["git blame", ["a"]],
  ["git cat-file", ["HEAD"]],
  ["pgrep", ["a"]],
  ["find", []],
  ["tar", ["a.tar"]]
])

const operandsFor = (front: Words): Words =>
  operandsByProgram.get(front.join(" ")) ??
  (/^(?:git|ps|systemctl|journalctl|docker|ss)$/.test(front[0] ?? "") ? [] : ["a"])

const toSubject = (front: Words, grammar?: Grammar): Subject => ({
  front,
  operands: operandsFor(front),
  flags: [...(grammar?.flags.keys() ?? [])].filter((flag) => flag !== "-#")
})

const subjects: ReadonlyArray<Subject> = [
  ...Array.from([...filePrograms, ...machinePrograms], ([name, grammar]) => toSubject([name], grammar)),
  ...Array.from(scripted.keys(), (name) => toSubject(name === "find" ? [name, "."] : [name])),
  ...Array.from(verbs).flatMap(([name, rows]) =>
    Array.from(rows, ([verb, grammar]) => toSubject([name, verb], grammar))
  ),
  ...Array.from(subcommands, ([verb, grammar]) => toSubject(["git", verb], grammar)),
  ...["remote", "remote get-url", "stash list", "stash show", "reflog", "reflog show", "worktree list"].map((words) =>
    toSubject(["git", ...words.split(" ")])
  ),
  ...Array.from(versioned, (name) => toSubject([name]))
]

const letters = Array.from("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", (letter) => `-${letter}`)

/** Flags that the help of a program names, and every letter. */
const findFlags = (front: Words): ReadonlyArray<string> => {
  const [program = "", verb] = front
  const help = runConfined(
    `timeout 5 ${toLine(program === "git" && verb !== undefined ? [program, verb, "-h"] : [program, "--help"])} 2>&1 </dev/null`
  )
  return [...letters, ...new Set(Array.from(help.matchAll(/(?<![\w-])--?[A-Za-z][\w-]*/g), ([flag]) => flag))].slice(
    0,
    600
  )
}

/** A file that is a program: to write it and to start it is seen. */
const planted = "./x"

/** Everything that may follow the front with one flag; a number where a flag takes nothing else. */
const spellFlag = (flag: string, operands: Words): ReadonlyArray<ReadonlyArray<Words>> => [
  [[flag, ...operands]],
  [
    [flag, planted, ...operands],
    [flag, "1", ...operands]
  ],
  [planted, "1"].map((value) => [flag.startsWith("--") ? `${flag}=${value}` : `${flag}${value}`, ...operands]),
  [[flag, ...operands, "out"]]
]

/** Abbreviations of a long flag. */
const shorten = (flag: string): ReadonlyArray<string> =>
  flag.startsWith("--") ? [4, 6, 8].filter((length) => length < flag.length).map((length) => flag.slice(0, length)) : []

const isReading = (words: Words): boolean => Danger.judge(toLine(words)).onlyReads

const makeCommands = ({ flags, front, operands }: Subject): ReadonlyArray<Words> => {
  const given = [...new Set([...flags, ...findFlags(front)].flatMap((flag) => [flag, ...shorten(flag)]))]
  const plain = [
    [...front, ...operands],
    [...front, ...operands, "out"]
  ].filter(isReading)
  const flagged = given.flatMap((flag) =>
    spellFlag(flag, operands).flatMap((spellings) =>
      spellings
        .map((rest) => [...front, ...rest])
        .filter(isReading)
        .slice(0, 1)
    )
  )
  return [...new Map([...plain, ...flagged].map((words) => [toLine(words), words])).values()]
}

const isInstalled = (program: string): boolean => runConfined(`command -v ${quoteWord(program)}`).startsWith("/")

/** Returns what a subject did more than read, with the command. */
const traceSubject = (commands: ReadonlyArray<Words>): ReadonlyArray<string> =>
  traceCommands(commands).flatMap((trace, index) => {
    const words = commands[index] ?? []
    return findWrites(words[0] ?? "", trace)
      .slice(0, 2)
      .map((call) => `${words.join(" ")}: ${call}`)
  })

const sample: ReadonlyArray<Words> = [
  "ls -la",
  "cat -n a",
  "grep -rn a .",
  "sort -u a",
  "sort -k 2 a",
  "uniq -c a",
  "find . -name a",
  "sed -n p a",
  "awk 1 a",
  "date -u +%F",
  "wc -l a",
  "diff -u a b",
  "git log --oneline",
  "git status -s",
  "git diff --stat",
  "tail -n 1 a"
].map((line) => line.split(" "))

const isTraced = canTrace()

describe.skipIf(!isTraced)("commands that are known to only read, traced", () => {
  it("sees what writes, runs or sets something", () => {
    const commands = [
      ["sort", "-o", "out", "a"],
      ["touch", "out"],
      ["rm", "a"],
      ["date", "-s", "2001-01-01"],
      ["mkdir", "n"],
      ["chmod", "+x", "b"],
      ["find", ".", "-exec", "./x", ";"],
      ["mv", "b", "c"],
      ["bash", "-c", ": </dev/tcp/127.0.0.1/9"]
    ]
    traceCommands(commands).forEach((trace, index) => {
      assert.isNotEmpty(findWrites(commands[index]?.[0] ?? "", trace), `${commands[index]?.join(" ")}\n${trace}`)
    })
  })

  it("sees a call that another process interrupted in the trace", () => {
    const halves = [
      '1 execve("/usr/bin/timeout", [], 0x1) = 0',
      '2 execve("/tmp/w/x", ["x"], 0x1 <unfinished ...>',
      "3 tgkill(2, 3, SIGURG <unfinished ...>",
      "2 <... execve resumed>)  = 0"
    ]
    assert.deepStrictEqual(findWrites("sort", halves.join("\n")), ['execve("/tmp/w/x", ["x"], 0x1)  = 0'])
  })

  it("does not run anything but reading: a sample", () => {
    assert.deepStrictEqual(
      sample.filter((words) => !isReading(words)),
      []
    )
    assert.deepStrictEqual(traceSubject(sample), [])
  })

  for (const subject of subjects.filter(({ front: [name = ""] }) => traced.includes("all") || traced.includes(name))) {
    it(`only reads: ${subject.front.join(" ")}`, ({ skip }) => {
      if (!isInstalled(subject.front[0] ?? "")) return skip()
      assert.deepStrictEqual(traceSubject(makeCommands(subject)), [])
    })
  }
})
