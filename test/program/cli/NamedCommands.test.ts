// Commands and flags of the program that the documentation and its own messages name are those of its help.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { src } from "../../support/sources.ts"
import { sitePages } from "../../support/site.ts"
import { cli } from "./capture.ts"

interface Help {
  readonly commands: ReadonlySet<string>
  readonly flags: ReadonlySet<string>
}

/** Underscores in the names of flags are dashes. */
const dashed = (flag: string): string => flag.replaceAll("_", "-")

const known = new Map<string, Help>()

/** Subcommands and flags that the help of a command lists. */
const helpOf = Effect.fnUntraced(function* (path: ReadonlyArray<string>) {
  const name = path.join(" ")
  const before = known.get(name)
  if (before !== undefined) return before
  const { stdout } = yield* cli(...path, "--help")
  const sections = stdout.split(/^(?=[A-Z ]+$)/m)
  const commands = sections.filter((part) => /^(?:SUBCOMMANDS|EVERYDAY|FOR [A-Z]+)\n/.test(part)).join("\n")
  // The help of the program names the usual flags, and that of a conversation all of them.
  const flags = path.length === 0 ? stdout + (yield* cli("chat", "--help")).stdout : stdout
  const help = {
    commands: new Set(
      Array.from(commands.matchAll(/^ {2}([a-z][\w-]*)(?:, [\w-]+)* /gm), ([, command = ""]) => command)
    ),
    flags: new Set(Array.from(flags.matchAll(/(?<=^ {2}.*)--?[a-z][\w-]*/gim), ([flag]) => dashed(flag)))
  }
  known.set(name, help)
  return help
})

/** Command lines of a page: code in its text that begins with the program, and lines of its shell examples. */
const linesOf = (markdown: string): ReadonlyArray<string> => {
  const fences = Array.from(markdown.matchAll(/^```(\w*)\n([\s\S]*?)^```/gm))
  const shell = fences.flatMap(([, language = "", code = ""]) =>
    ["", "sh"].includes(language) ? code.replaceAll(/\\\n/g, " ").split("\n") : []
  )
  const inline = Array.from(
    markdown.replaceAll(/^```[\s\S]*?^```/gm, "").matchAll(/`([^`\n]+)`/g),
    ([, code = ""]) => code
  )
  return [...shell, ...inline].flatMap(
    (code) =>
      /^(?:[A-Z_]+=\S+ )*(?:.*-p hermes-effect |.*npm run -s )?hermes (?:-- )?(.+)$/.exec(code.trim())?.[1] ?? []
  )
}

/** Words of a line up to a comment, a pipe or another command; those in quotes are one `"`. */
const wordsOf = (line: string): ReadonlyArray<string> =>
  line
    .replaceAll(/"[^"]*"|'[^']*'/g, '"')
    .replace(/\s[#|>&;].*$/, "")
    .trim()
    .split(/\s+/)

const faultsOf = Effect.fnUntraced(function* (line: string) {
  const path: Array<string> = []
  let help = yield* helpOf(path)
  const flags = new Set(help.flags)
  const faults: Array<string> = []
  for (const word of wordsOf(line)) {
    if (word.startsWith("-")) {
      const [flag = ""] = word.replace(/[,.]$/, "").split("=")
      if (flag !== "-" && flag !== "--" && !flags.has(dashed(flag))) faults.push(`no flag ${flag}`)
    } else if (help.commands.has(word)) {
      path.push(word)
      help = yield* helpOf(path)
      for (const flag of help.flags) flags.add(flag)
    } else if (path.length === 0 && ["batch", "eval", "swe", "rl"].includes(word)) {
      faults.push(`${word} is a command of hermes lab`)
    } else if (faults.length === 0 && path.length > 0 && help.commands.size > 0 && /^[a-z][a-z-]+$/.test(word)) {
      faults.push(`${path.join(" ")} has no command ${word}`)
    }
    if (faults.length > 0) break
  }
  return faults
})

/** Command lines in the messages and examples of a module: code in backticks, and the texts of examples. */
const messagesOf = (source: string): ReadonlyArray<string> =>
  source
    .split("\n")
    .filter((line) => !/^\s*(?:\*|\/\/|\/\*\*)/.test(line) && !/Effect\.fn\("/.test(line))
    .flatMap((line) => [
      ...Array.from(line.matchAll(/\\?`hermes ([^`\\]+)/g), ([, text = ""]) => text),
      ...Array.from(line.matchAll(/command: "hermes ([^"]+)"/g), ([, text = ""]) => text)
    ])
    // An interpolation is the name of something.
    .map((text) => text.replaceAll(/\$\{[^}]*\}?/g, "X"))

describe("messages of the program", () => {
  it.effect("name commands and flags that there are", () =>
    Effect.gen(function* () {
      const lines = ["program", "research", "serve", "tools", "agent", "observe", "models", "base", "store"].flatMap(
        (wing) =>
          readdirSync(join(src, wing), { recursive: true, encoding: "utf8" })
            .filter((name) => name.endsWith(".ts"))
            .flatMap((name) =>
              messagesOf(readFileSync(join(src, wing, name), "utf8")).map((line) => ({
                line,
                source: `${wing}/${name}`
              }))
            )
      )
      assert.isAbove(lines.length, 100)
      const found = yield* Effect.forEach(lines, ({ line, source }) =>
        Effect.map(faultsOf(line), (faults) => faults.map((fault) => `${source}: hermes ${line}: ${fault}`))
      )
      assert.deepStrictEqual(found.flat(), [])
    })
  )
})

describe("the documentation", () => {
  it.effect("names commands and flags that there are", () =>
    Effect.gen(function* () {
      const pages = sitePages().filter(({ section }) => section === "Start" || section === "Guides")
      const lines = pages.flatMap(({ markdown, source }) => linesOf(markdown).map((line) => ({ line, source })))
      assert.isAbove(lines.length, 100)
      const found = yield* Effect.forEach(lines, ({ line, source }) =>
        Effect.map(faultsOf(line), (faults) => faults.map((fault) => `${source}: hermes ${line}: ${fault}`))
      )
      assert.deepStrictEqual(found.flat(), [])
      assert.isAbove(known.size, 40)
    })
  )
})
