// Words of the sources: the page of the contract states the rules that comments cite, comments say what a thing does,
// names are standard terms.
import { assert, describe, it } from "@effect/vitest"
import { readdirSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { root, type Source, sources, src } from "./support/sources.ts"

const all = sources()

const offences = (check: (source: Source) => ReadonlyArray<string>): ReadonlyArray<string> =>
  all.flatMap((source) => check(source).map((what) => `src/${source.path}: ${what}`))

/** Comments as plain text, in order: block comments whole, line comments in groups of neighbouring lines. */
const comments = (text: string): ReadonlyArray<string> =>
  [
    ...Array.from(text.matchAll(/\/\*\*?\s([\s\S]*?)\*\//g), ([, body = ""]) => body.replaceAll(/^\s*\* ?/gm, "")),
    ...Array.from(text.matchAll(/(?:^[ \t]*\/\/.*\n)+/gm), ([lines]) => lines.replaceAll(/^\s*\/\/ ?/gm, ""))
  ].map((comment) => comment.trim())

/** Documents that a `Source:` line may name by other words than a file's name, all of them parts of the contract. */
const titled = ["middleware", "observer", "lifecycle", "NeMo Relay", "usage", "observability", "delegation and MCP"]
const documentName = new RegExp(`\`?([\\w-]+\\.md)\`?|the (${titled.join("|")}) document`, "g")

interface Cited {
  readonly document: string
  /** `§13.4`, or nothing for the document as a whole. */
  readonly section: string | undefined
}

/** Numbers of sections in a text; a range (`§1.2–1.4`, `§1.2 to §1.4`) is each of its ends and what lies between. */
const sectionsIn = (text: string): ReadonlyArray<string> => {
  const found: Array<string> = []
  for (const [, from = "", to] of text.matchAll(/§([\w.]*\w)(?:(?:–|-| to )§?([\w.]*\w))?/g)) {
    found.push(from)
    if (to === undefined) continue
    found.push(to)
    const [, prefix = "", first = ""] = /^(.*?)(\d+)$/.exec(from) ?? []
    const [, , last = ""] = /^(.*?)(\d+)$/.exec(to) ?? []
    for (let number = Number(first) + 1; number < Number(last); number++) found.push(`${prefix}${number}`)
  }
  return found
}

/** Sections of the documents of the contract that a text names; public specifications are left out. */
const citationsIn = (text: string): ReadonlyArray<Cited> => {
  const names = Array.from(text.matchAll(documentName))
  return names.flatMap((match, index): ReadonlyArray<Cited> => {
    const document = match[1] ?? `the ${match[2]} document`
    const after = text
      .slice(match.index + match[0].length, names[index + 1]?.index)
      .replaceAll(/\([^)]*\)|"[^"]*"/g, "")
    const sections = sectionsIn(after)
    return sections.length === 0
      ? [{ document, section: undefined }]
      : sections.map((section) => ({ document, section }))
  })
}

/** `Source:` lines of a module, each with the lines that it goes on for. */
const citations = ({ text }: Source): ReadonlyArray<Cited> =>
  comments(text).flatMap((comment) =>
    Array.from(comment.matchAll(/Source: ([\s\S]*?)(?:\n\n|$)/g)).flatMap(([, body = ""]) =>
      citationsIn(body.replaceAll("\n", " "))
    )
  )

/** Page of the documentation that states the cited rules, by document and section. */
const contractPage = readFileSync(join(root, "scratchpad/guides/contract.md"), "utf8")

/** Text below a heading of a level, up to the next heading of this or a higher level. */
const readSections = (
  text: string,
  level: number
): ReadonlyArray<{ readonly heading: string; readonly text: string }> =>
  Array.from(
    text.matchAll(new RegExp(`^#{${level}} (.*)\\n([\\s\\S]*?)(?=^#{1,${level}} |(?![\\s\\S]))`, "gm")),
    ([, heading = "", body = ""]) => ({ heading, text: body })
  )

/** Documents of the page, each with the sections that begin a heading or an item of its list. */
const statedRules: ReadonlyMap<string, ReadonlySet<string>> = new Map(
  readSections(contractPage, 2)
    .filter(({ text }) => text.trim() !== "")
    .map(({ heading, text }) => {
      const items = Array.from(text.matchAll(/^- (§[^:`]*).*: ?\S/gm), ([, sections = ""]) => sections)
      const headings = readSections(text, 3).flatMap((section) => (section.text.trim() === "" ? [] : section.heading))
      return [heading, new Set([...items, ...headings].flatMap(sectionsIn))]
    })
)

const isStated = ({ document, section }: Cited): boolean =>
  section === undefined ? statedRules.has(document) : statedRules.get(document)?.has(section) === true

/** String literals of a module; comments and regular expressions are passed over. */
const strings = (text: string): ReadonlyArray<string> =>
  Array.from(text.matchAll(tokens), ({ 0: token, groups }) => (groups?.["passed"] === undefined ? token : ""))

const tokens = new RegExp(
  [
    "(?<passed>//[^\\n]*|/\\*[\\s\\S]*?\\*/",
    "(?<=(?:^|[(,=:[!&|?{};]|=>|return)\\s*)/(?![*/])(?:\\\\.|\\[(?:\\\\.|[^\\]\\\\\\n])*\\]|[^/\\\\\\n[])+/[a-z]*)",
    '"(?:[^"\\\\\\n]|\\\\.)*"',
    "'(?:[^'\\\\\\n]|\\\\.)*'",
    "`(?:[^`\\\\]|\\\\[\\s\\S])*`"
  ].join("|"),
  "gm"
)

/** Strings that are compared with what older versions wrote, so that they stay as they are. */
const written: ReadonlyArray<string> = ['"deletion that can not be undone (shred)"']

/** Roles that several protocols or formats have: one name in each of their folders, and nowhere else. */
const roles: ReadonlyArray<{ readonly folder: string; readonly names: ReadonlyArray<string> }> = [
  { folder: "models/provider", names: ["Decode", "Endpoint", "Messages", "Request", "Stream"] },
  { folder: "observe", names: ["Answer", "FromRuns", "Spans"] }
]

const baseName = (path: string): string => path.slice(path.lastIndexOf("/") + 1, -".ts".length)

/** True for a module that has a role of its protocol: its folder is that of one protocol, below the folder of all. */
const isRole = (path: string): boolean =>
  roles.some(
    ({ folder, names }) =>
      path.startsWith(`${folder}/`) &&
      path.slice(folder.length + 1).split("/").length === 2 &&
      names.includes(baseName(path))
  )

/** Names that described a module by metaphor, with the names that took their places. */
const formerNames: Readonly<Record<string, string>> = {
  "agent/Ask": "agent/ModelRequest",
  "agent/Closing": "agent/RunEnd",
  "agent/Opening": "agent/RunStart",
  "agent/Overflow": "agent/ContextOverflow",
  "agent/Recovery": "agent/AnswerRetryPolicy",
  "agent/Refusal": "agent/RunEnd",
  "program/cli/Asking": "program/cli/RunOptions",
  "program/cli/Ending": "program/cli/ExitMessage",
  "program/cli/Look": "program/cli/render/MarkdownTheme",
  "program/cli/Shown": "program/cli/StreamedText",
  "program/cli/Tooling": "program/cli/ToolsetSelection",
  "hooks/internal/Attempt": "base/domain/IsolatedCall",
  "hooks/internal/Queued": "hooks/Hooks",
  "hooks/internal/Words": "hooks/ShellHookProcess",
  "internal/Said": "program/runtime/SettingsMapping",
  "middleware/Frame": "middleware/MiddlewareBoundary",
  "agent/plugin/Border": "agent/plugin/PluginAdapter",
  "agent/plugin/GiveUp": "base/domain/IsolatedCall",
  "agent/plugin/Inbox": "agent/plugin/MessageInjection",
  "agent/plugin/ToolDesk": "agent/plugin/PluginToolAccess",
  "models/routing/auxiliary/Elsewhere": "isFailoverable, in its caller",
  "models/routing/catalogue/Stated": "models/routing/catalogue/ModelOverrides",
  "models/routing/lane/ChainCall": "models/routing/Failover",
  "models/routing/lane/Here": "models/routing/RouteCallState",
  "models/routing/lane/Lane": "models/routing/ManagedRoute",
  "models/routing/lane/LaneCall": "models/routing/RouteRetry",
  "models/routing/lane/Rate": "models/routing/RateLimitGate",
  "models/routing/lane/Watch": "models/routing/StreamTimeout",
  "models/routing/rate/Pace": "models/routing/rate/RequestPacing",
  "tools/approval/Asking": "tools/approval/ApprovalFlow",
  "tools/approval/Attendance": "tools/approval/InteractiveMode",
  "tools/approval/Concerns": "tools/approval/ApprovalReasons",
  "tools/approval/Subject": "tools/approval/ApprovalTarget",
  "tools/danger/Handed": "tools/danger/EmbeddedCommands",
  "tools/danger/Read": "tools/danger/ScriptInterpreter",
  "tools/mcp/Told": "tools/mcp/DescriptionSanitizer",
  "tools/result/Desk": "tools/result/ResultCommit"
}

describe("Words", () => {
  it("rules that a Source line names are stated by the page of the contract", () => {
    const found = offences((source) =>
      citations(source)
        .filter((cited) => !isStated(cited))
        .map(
          ({ document, section }) =>
            `cites ${document}${section === undefined ? "" : ` §${section}`}, which scratchpad/guides/contract.md does not state`
        )
    )
    assert.deepStrictEqual(found, [])
  })

  it("comments begin with what a thing does", () => {
    const question = /^(What|Whether|Who|How|Where|Which|Why|When)\b.*/
    const found = offences(({ text }) =>
      comments(text).flatMap((comment) =>
        comment.split(/\n\s*\n/).flatMap((paragraph) => question.exec(paragraph)?.[0] ?? [])
      )
    )
    assert.deepStrictEqual(found, [])
  })

  it("comments stand for themselves", () => {
    const found = offences(({ text }) => text.match(/See the (?:module|top)\b|@since\b.*/g) ?? [])
    assert.deepStrictEqual(found, [])
  })

  it("texts that users and models read are plain", () => {
    const found = offences(({ text }) =>
      strings(text).filter((string) => /\bcan not\b|\b[Nn]obody\b/.test(string) && !written.includes(string))
    )
    assert.deepStrictEqual(found, [])
  })

  it("comments name modules that are there", () => {
    const paths = all.map(({ path }) => `/${path.slice(0, -".ts".length)}`)
    const found = offences(({ text }) =>
      comments(text).flatMap((comment) =>
        Array.from(comment.matchAll(/`((?:[a-z][\w-]*\/)+[A-Z]\w+)(?:\.ts)?`/g), ([, name = ""]) => name).filter(
          (name) => !paths.some((path) => path.endsWith(`/${name}`))
        )
      )
    )
    assert.deepStrictEqual(found, [])
  })

  it("READMEs name modules that are there", () => {
    const pages = readdirSync(src, { recursive: true, encoding: "utf8" }).filter((path) => path.endsWith("README.md"))
    const paths = new Set(all.map(({ path }) => path.slice(0, -".ts".length)))
    const words = new Set(all.flatMap(({ path, text }) => [baseName(path), ...(text.match(/\b[A-Z]\w+/g) ?? [])]))
    const drawn = pages.flatMap((page) =>
      (readFileSync(join(src, page), "utf8").match(/^```\n[\s\S]*?^```$/gm) ?? [])
        .flatMap((picture) => picture.match(/\b[A-Z][a-z]+[A-Z]\w+/g) ?? [])
        .filter((name) => !words.has(name))
        .map((name) => `src/${page}: ${name}`)
    )
    assert.deepStrictEqual(drawn, [])
    const found = pages.flatMap((page) =>
      Array.from(
        readFileSync(join(src, page), "utf8").matchAll(/`((?:[\w-]+\/)*)([A-Z]\w+)(?:\.ts)?`/g),
        ([, folder = "", name = ""]) => {
          const there =
            folder === ""
              ? words.has(name)
              : paths.has(join(dirname(page), folder, name)) || paths.has(`${folder}${name}`)
          return there ? [] : [`src/${page}: ${folder}${name}`]
        }
      ).flat()
    )
    assert.deepStrictEqual(found, [])
  })

  it("a name is used for one module", () => {
    const paths = new Map<string, Array<string>>()
    for (const { path } of all) {
      if (!isRole(path)) paths.set(baseName(path), [...(paths.get(baseName(path)) ?? []), path])
    }
    for (const { path } of all) {
      if (isRole(path)) paths.get(baseName(path))?.push(path)
    }
    assert.deepStrictEqual(
      Array.from(paths.values()).filter((same) => same.length > 1),
      []
    )
  })

  it("names that were replaced do not come back", () => {
    const found = all.flatMap(({ path }) => {
      const better = formerNames[path.slice(0, -".ts".length)]
      return better === undefined ? [] : [`src/${path}: ${better}`]
    })
    assert.deepStrictEqual(found, [])
  })
})
