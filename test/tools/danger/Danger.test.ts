// What is dangerous, and what is not: two corpora, and garbage that must neither throw nor take long.
import { assert, describe, it } from "@effect/vitest"
import * as Danger from "../../../src/tools/danger/Danger.ts"
import * as Reading from "../../../src/tools/danger/Reading.ts"
import * as ScriptInterpreter from "../../../src/tools/danger/ScriptInterpreter.ts"
import * as Schema from "effect/Schema"
import { hostile as basic } from "./hostile.ts"
import { hostileDisguised } from "./hostileDisguised.ts"
import { hostileMore } from "./hostileMore.ts"
import { hostileSelf } from "./hostileSelf.ts"
import { ordinary as daily } from "./ordinary.ts"
import { ordinaryDisguised } from "./ordinaryDisguised.ts"
import { ordinaryMore } from "./ordinaryMore.ts"
import { everydayReading } from "./everydayReading.ts"
import { doesMore, looks } from "./reading.ts"
import { seemsToLook } from "./readingFlags.ts"
import { prop } from "../../support/property.ts"

const hostile = [...basic, ...hostileMore, ...hostileDisguised, ...hostileSelf]
const ordinary = [...daily, ...ordinaryMore, ...ordinaryDisguised]

/** What a shell gives a meaning to. */
const Token = Schema.Literals([
  "rm",
  "-rf",
  "/",
  " ",
  "\n",
  ";",
  "&",
  "|",
  "&&",
  "(",
  ")",
  "{",
  "}",
  "((",
  "))",
  "$(",
  "${",
  "`",
  "'",
  '"',
  "$'",
  "\\",
  "<<EOF\n",
  "EOF",
  "<(",
  ">",
  ">&",
  "<<<",
  "#",
  "=",
  "x=",
  "$x",
  "$@",
  "${x:-",
  "[",
  "]",
  "*",
  "?",
  "{a,b}",
  "if",
  "then",
  "fi",
  "for",
  "in",
  "do",
  "done",
  "case",
  "esac",
  ";;",
  "function",
  "f()",
  "eval",
  "sh -c",
  "sudo",
  "env",
  "xargs",
  "find",
  "-exec",
  "echo",
  "base64 -d",
  "curl",
  "git -c",
  "alias.x=!",
  "PAGER=",
  "tmux new",
  "mapfile -t x",
  "vim -c",
  "'!",
  "\u200b",
  "\ud800",
  "é"
])

/** Texts that make careless readers slow. */
const nasty: ReadonlyArray<readonly [unit: string, around?: readonly [before: string, after: string]]> = [
  ["("],
  ["(("],
  ["{ "],
  ["{a,"],
  ["$("],
  ["${"],
  ["`"],
  ['"'],
  ["'"],
  ["\\"],
  ["a|"],
  ["a&"],
  ["x=$x$x;"],
  ["<<a "],
  ["sudo "],
  ["eval "],
  ["sh -c 'a' "],
  ["f(){ f; };"],
  ["function f "],
  ["case a in "],
  ["/..", ["rm -rf ", ""]],
  ["*", ["${x%%", "}"]],
  ["> a "],
  ["delete from x ", ["psql -c '", "'"]],
  ["chmod +x a;./a;"],
  ["\u200b"],
  ["\u001b]"],
  ["a "],
  ["-"],
  ["a=("],
  ["YQ==", ["echo ", "|base64 -d|sh"]]
]

describe("Danger", () => {
  it("stops or asks about every hostile command where no wall stands, and keeps those of the floor on it", () => {
    assert.isAtLeast(hostile.length, 1_100)
    const missed = hostile.flatMap(([command, , gravity]) => {
      const verdict = Danger.judge(command)
      const isSeen =
        gravity === "floor" ? verdict.floor !== undefined : Danger.selectAskedFindings(verdict, "ask").length > 0
      return isSeen ? [] : [command]
    })
    assert.deepStrictEqual(missed, [])
  })

  it("takes no hostile command for one that only reads, even without the rules that name its danger", () => {
    const taken = hostile.filter(
      ([command, , gravity]) =>
        gravity !== "floor" && Reading.isOnlyReading(command, ScriptInterpreter.read(command).commands)
    )
    assert.deepStrictEqual(
      taken.map(([command]) => command),
      ["echo \u202ehs.x | tac"]
    )
  })

  it("asks behind a wall about losses that it does not stop", () => {
    const kinds = new Set(["file destruction", "history rewriting", "database"])
    const losses = hostile.filter(([, family, gravity]) => gravity === "ask" && kinds.has(family))
    const passed = losses
      .filter(([command]) => Danger.selectAskedFindings(Danger.judge(command), "confined").length === 0)
      .map(([command]) => command)
    assert.strictEqual(losses.length - passed.length, 116)
    // What passes changes a system file or a file of the home directory, which the wall keeps, or a shell's own record.
    assert.deepStrictEqual(
      passed.filter((command) => !/(?:^| )[~/]|HIST|history|journalctl/.test(command)),
      []
    )
  })

  it("asks behind a wall about what is published, and about fewer than two in a thousand other ordinary commands", () => {
    const asked = ordinary.flatMap((command) =>
      Danger.selectAskedFindings(Danger.judge(command), "confined").map(
        ({ family, key }) => `${command}: ${family} ${key}`
      )
    )
    const kept = asked.filter((line) => !line.includes(": publication "))
    assert.isBelow(kept.length / ordinary.length, 0.002, asked.join("\n"))
  })

  it("asks behind a wall with all of the network about a download that is run at once", () => {
    const asks = (command: string) => Danger.selectAskedFindings(Danger.judge(command), "connected").length > 0
    const runs = hostile.filter(
      ([, family, , reason]) => family === "remote code" && /download|over the network/.test(reason)
    )
    assert.isAtLeast(runs.length, 50)
    assert.deepStrictEqual(
      runs.flatMap(([command]) => (asks(command) ? [] : [command])),
      []
    )
    assert.deepStrictEqual(
      runs.filter(([command]) =>
        Danger.selectAskedFindings(Danger.judge(command), "confined").some(({ family }) => family === "remote code")
      ),
      []
    )
    const plain = [
      "curl -O https://a.example/data.json && jq . data.json",
      "curl -s https://a.example | jq .",
      "diff <(curl a) <(curl b)",
      "wget https://a.example/a.tgz && tar xf a.tgz",
      "pip install --index-url https://a.example x",
      "npm ci",
      "curl -o x.sh https://a.example/x.sh",
      "npm run e2e -- --url https://localhost"
    ]
    assert.deepStrictEqual(plain.filter(asks), [])
    assert.deepStrictEqual(
      ordinary.filter(
        (command) => asks(command) && Danger.selectAskedFindings(Danger.judge(command), "confined").length === 0
      ),
      []
    )
  })

  it("knows the ordinary commands that only read", () => {
    assert.strictEqual(
      ordinary.filter((command) => Danger.selectAskedFindings(Danger.judge(command), "ask").length === 0).length,
      162
    )
  })

  it("tells looking from what only seems to", () => {
    const reads = (command: string) => Danger.judge(command).onlyReads
    assert.deepStrictEqual(
      looks.filter((command) => !reads(command)),
      []
    )
    assert.deepStrictEqual([...doesMore, ...seemsToLook].filter(reads), [])
  })

  it("lets the commands run with which agents look at a project every day", () => {
    const asked = everydayReading.filter(
      (command) => Danger.selectAskedFindings(Danger.judge(command), "ask").length > 0
    )
    assert.deepStrictEqual(asked, [])
    assert.isAtLeast(everydayReading.length, 300)
  })

  it("asks before an agent lifts its own rules", () => {
    for (const [command] of hostileSelf)
      assert.isNotEmpty(Danger.selectAskedFindings(Danger.judge(command), "ask"), command)
  })

  it("keeps the floor for what nobody may lift", () => {
    const floored = ordinary.filter((command) => Danger.judge(command).floor !== undefined)
    assert.deepStrictEqual(floored, [])
  })

  it("holds the floor for prose and ordinary flags only where a command is run", () => {
    for (const command of [
      'echo "rm -rf /"',
      "git commit -m 'shutdown now'",
      "grep -r 'mkfs.ext4 /dev/sda' .",
      "# rm -rf /",
      "rm -rf /tmp/x",
      "rm ~/x",
      "git rm -r --cached .",
      "docker rm -f x",
      "vitest -t 'shutdown of rm -rf /'",
      "gh pr create --body 'rm -rf /'",
      "git -c user.name=x commit -m 'rm -rf /'"
    ]) {
      assert.isUndefined(Danger.judge(command).floor, command)
    }
  })

  prop(
    "never throws, whatever the text",
    [Schema.String, Schema.Array(Token)],
    ([noise, tokens]) => {
      Danger.judge(noise)
      Danger.judge(tokens.join(""))
      Danger.judge(tokens.join(" "))
    },
    { arbitrary: { runs: Number(process.env["HERMES_FUZZ_RUNS"] ?? 300) } }
  )

  prop(
    "keeps the floor whatever stands around a command of its own",
    [Schema.Array(Schema.Literals(["ls", "true", "echo x", "cd src", "x=1"]))],
    ([around]) => {
      assert.isDefined(Danger.judge([...around, "rm -rf /", ...around].join("; ")).floor)
      assert.isDefined(Danger.judge([...around, "rm -rf /", ...around].join("\n")).floor)
    }
  )

  it("ends on texts that are made to be slow", () => {
    for (const [unit, [before, after] = ["", ""]] of nasty) {
      Danger.judge(before + unit.repeat(Math.ceil(8_000 / unit.length)) + after)
    }
    assert.isDefined(Danger.judge("a".repeat(Danger.maxLength + 1)).floor)
  })
})
