// What is dangerous, and what is not: two corpora, and garbage that must neither throw nor take long.
import { assert, describe, it } from "@effect/vitest"
import * as Danger from "../../../src/tool/danger/Danger.ts"
import * as Schema from "effect/Schema"
import { hostile as basic } from "./hostile.ts"
import { hostileDisguised } from "./hostileDisguised.ts"
import { hostileMore } from "./hostileMore.ts"
import { hostileSelf, ordinarySelf } from "./hostileSelf.ts"
import { ordinary as daily } from "./ordinary.ts"
import { ordinaryDisguised } from "./ordinaryDisguised.ts"
import { ordinaryMore } from "./ordinaryMore.ts"
import { prop } from "../../support/property.ts"

const hostile = [...basic, ...hostileMore, ...hostileDisguised, ...hostileSelf]
const ordinary = [...daily, ...ordinaryMore, ...ordinaryDisguised]

/** What a shell gives a meaning to. */
const Token = Schema.Literals([
  "rm", "-rf", "/", " ", "\n", ";", "&", "|", "&&", "(", ")", "{", "}", "((", "))", "$(", "${", "`", "'", "\"", "$'", "\\", "<<EOF\n", "EOF", "<(",
  ">", ">&", "<<<", "#", "=", "x=", "$x", "$@", "${x:-", "[", "]", "*", "?", "{a,b}", "if", "then", "fi", "for", "in", "do", "done", "case",
  "esac", ";;", "function", "f()", "eval", "sh -c", "sudo", "env", "xargs", "find", "-exec", "echo", "base64 -d", "curl", "git -c", "alias.x=!", "PAGER=", "tmux new", "mapfile -t x", "vim -c", "'!", "\u200b", "\ud800", "é"
])

/** Texts that make careless readers slow. */
const nasty: ReadonlyArray<readonly [unit: string, around?: readonly [before: string, after: string]]> = [
  ["("], ["(("], ["{ "], ["{a,"], ["$("], ["${"], ["`"], ["\""], ["'"], ["\\"], ["a|"], ["a&"], ["x=$x$x;"], ["<<a "], ["sudo "], ["eval "],
  ["sh -c 'a' "], ["f(){ f; };"], ["function f "], ["case a in "], ["/..", ["rm -rf ", ""]], ["*", ["${x%%", "}"]], ["> a "],
  ["delete from x ", ["psql -c '", "'"]], ["chmod +x a;./a;"], ["\u200b"], ["\u001b]"], ["a "], ["-"], ["a=("], ["YQ==", ["echo ", "|base64 -d|sh"]]
]

describe("Danger", () => {
  it("finds every hostile command, for its reason", () => {
    assert.isAtLeast(hostile.length, 150)
    const missed = hostile.flatMap(([command, family, gravity]) => {
      const { findings } = Danger.judge(command)
      return findings.some((finding) => finding.family === family && finding.gravity === gravity)
        ? []
        : [`${JSON.stringify(command)}: ${findings.map(({ family, gravity }) => `${family}/${gravity}`).join(", ")}`]
    })
    assert.deepStrictEqual(missed, [])
  })

  it("raises fewer than two false alarms in a hundred ordinary commands", () => {
    assert.isAtLeast(ordinary.length, 150)
    const alarms = ordinary.flatMap((command) => {
      const { findings } = Danger.judge(command)
      return findings.length === 0 ? [] : [`${command}: ${findings.map(({ key }) => key).join(", ")}`]
    })
    assert.isBelow(alarms.length / ordinary.length, 0.02, alarms.join("\n"))
  })

  it("asks before an agent lifts its own rules, and not when it only looks at them", () => {
    for (const command of ordinarySelf) assert.deepStrictEqual(Danger.judge(command).findings, [], command)
    for (const [command, , , key] of hostileSelf) {
      assert.isTrue(Danger.judge(command).findings.some((finding) => finding.key.startsWith(key)), command)
    }
  })

  it("keeps the floor for what nobody may lift", () => {
    const floored = ordinary.filter((command) => Danger.judge(command).floor !== undefined)
    assert.deepStrictEqual(floored, [])
  })

  it("holds the floor for prose and ordinary flags only where a command is run", () => {
    for (const command of ["echo \"rm -rf /\"", "git commit -m 'shutdown now'", "grep -r 'mkfs.ext4 /dev/sda' .", "# rm -rf /", "rm -rf /tmp/x", "rm ~/x"]) {
      assert.isUndefined(Danger.judge(command).floor, command)
    }
  })

  prop("never throws, whatever the text", [Schema.String, Schema.Array(Token)], ([noise, tokens]) => {
    Danger.judge(noise)
    Danger.judge(tokens.join(""))
    Danger.judge(tokens.join(" "))
  }, { arbitrary: { runs: Number(process.env["HERMES_FUZZ_RUNS"] ?? 300) } })

  prop("keeps the floor whatever stands around a command of its own", [Schema.Array(Schema.Literals(["ls", "true", "echo x", "cd src", "x=1"]))], ([around]) => {
    assert.isDefined(Danger.judge([...around, "rm -rf /", ...around].join("; ")).floor)
    assert.isDefined(Danger.judge([...around, "rm -rf /", ...around].join("\n")).floor)
  })

  it("ends on texts that are made to be slow", () => {
    for (const [unit, [before, after] = ["", ""]] of nasty) {
      Danger.judge(before + unit.repeat(Math.ceil(8_000 / unit.length)) + after)
    }
    assert.isDefined(Danger.judge("a".repeat(Danger.maxLength + 1)).floor)
  })
})
