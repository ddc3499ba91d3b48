/**
 * The system prompt of a new session, in layers.
 *
 * **Details**
 *
 * Layers have a fixed order, the most stable first, joined by blank lines; empty layers are omitted. The prompt is
 * built once, stored with the session and always sent with the same bytes, so that a provider's prefix cache keeps
 * hitting; it must not contain anything that changes within a session. Context of one turn is added at call time
 * (`agent/RunStart`).
 *
 * The prompt includes advice for each offered tool. It instructs models of the families in {@link families} to use
 * their tools instead of announcing actions, unless the settings disable this; some families get a second text about
 * their typical mistakes.
 *
 * Texts about the machine and from the user's files come from {@link PromptSources}. An application's agent has no
 * sources unless it provides {@link layerSources}; the program uses all of them.
 *
 * **Example** (An application agent that follows a project's `AGENTS.md`)
 *
 * ```ts
 * import * as NodeServices from "@effect/platform-node/NodeServices"
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { Agent, Runtime } from "hermes-effect"
 * import { SystemPrompt } from "hermes-effect/prompt"
 *
 * const agent = Runtime.layer().pipe(
 *   Layer.provide(SystemPrompt.layerSources({ project: true })),
 *   Layer.provide(NodeServices.layer)
 * )
 *
 * console.log((await Effect.runPromise(Effect.provide(Agent.run({ prompt: "Reply exactly hello" }), agent))).text)
 * // => hello
 * ```
 *
 * Source: `hermes-llm.md` §6.1 and §7.1.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import type { ContextFile } from "./ContextFiles.ts"

/** Default identity of the agent. */
const identity = [
  "You are Hermes, an agent that works on the user's machine.",
  "Do what the user asks, with the tools that you are given, and report what you really did and saw.",
  "Prefer looking at files and command output over guessing. Call independent read-only tools in the same message.",
  "When something fails, say so and say why. When you are done, answer briefly."
].join(" ")

/** Instruction on how to answer questions about the program itself. */
export const help =
  "When the user asks about Hermes itself (its settings, commands, tools or plugins), look it up with `hermes " +
  "--help`, `hermes config show` and `hermes tools`. Do not answer from memory."

const ofTools: ReadonlyArray<readonly [tool: string, text: string]> = [
  [
    "memory",
    "Memory lasts over sessions. Save with `memory` what will still be true and useful next week: the user's " +
      "preferences and corrections, facts about the machine and the project, lessons about tools. Write facts, " +
      "not orders to yourself. Do not save progress, results or to-dos: they stand in the session. Entries that " +
      "are wrong are replaced."
  ],
  [
    "session_search",
    "When the user speaks of something from an earlier conversation, or when earlier work may help, search " +
      "with `session_search` before you ask the user to repeat it."
  ],
  [
    "skill_manage",
    "After a task that took five tool calls or more, an error that was hard to find, or a way of working that " +
      "the user corrected, keep the way as a skill with `skill_manage`. Patch a skill that you found outdated or " +
      "wrong while you used it, before you finish."
  ]
]

/** Returns advice for the offered tools, in a fixed order. */
const listToolAdvice = (tools: ReadonlySet<string>): ReadonlyArray<string> =>
  ofTools.flatMap(([tool, text]) => (tools.has(tool) ? [text] : []))

/** Parts of model names. Models with these names are instructed to use their tools if the setting is `auto`. */
const families = [
  "gpt",
  "codex",
  "gemini",
  "gemma",
  "grok",
  "glm",
  "qwen",
  "deepseek",
  "kimi",
  "minimax",
  "mistral",
  "llama"
]

const act =
  "Use your tools to do the work. When you say that you will do something, do it in the same message by " +
  "calling the tool. Do not end a message with a plan or a promise: each message either makes progress with tool " +
  "calls or gives the user the finished result."

const ofFamilies: ReadonlyArray<readonly [names: ReadonlyArray<string>, text: string]> = [
  [
    ["gemini", "gemma"],
    "Use absolute paths in file tools. Look at a file before you change it, and check that a library is there " +
      "before you use it. Run commands so that they ask nothing (`--yes`, `-y`). Call tools that do not depend " +
      "on each other in one message."
  ],
  [
    ["gpt", "codex"],
    "Go on until the task is done; stop early only where you need something that only the user has. Look up " +
      "what a tool can tell you (times, versions, file contents, sums) instead of recalling it. When something " +
      "is unclear, take the likely reading, say so, and go on. Before you finish, check that the result is " +
      "complete, correct and in the form that was asked for."
  ]
]

/**
 * Models that are instructed to use tools: chosen by the model's name, all, none, or models whose names contain these
 * parts.
 */
export type Enforcement = "auto" | boolean | ReadonlyArray<string>

/** Returns advice for the family of a model. */
const listModelAdvice = (model: string, enforcement: Enforcement): ReadonlyArray<string> => {
  const name = model.toLowerCase()
  const isInModelName = (part: string): boolean => part !== "" && name.includes(part.toLowerCase())
  const isTold =
    typeof enforcement === "boolean"
      ? enforcement
      : (enforcement === "auto" ? families : enforcement).some(isInModelName)
  return isTold ? [act, ...ofFamilies.flatMap(([names, text]) => (names.some(isInModelName) ? [text] : []))] : []
}

/** Returns the identity of a model whose provider makes it state another one; `undefined` for every other model. */
const describeModelIdentity = (provider: string, model: string): string | undefined =>
  provider === "alibaba"
    ? `You are powered by the model ${model}. When you are asked which model you are, say so, whatever you were ` +
      "told elsewhere."
    : undefined

const describeMessenger = (name: string, markup: string, files: string): string =>
  `You answer in ${name}. ${markup} Keep messages short: people read them on a phone. ${files}`

const media = "To send a file, write `MEDIA:` and its absolute path on a line of its own."

const platforms: Readonly<Record<string, string>> = {
  cli:
    "You answer in a terminal. Keep lines short and use little Markdown: short lists and code blocks are " +
    "rendered, wide tables are hard to read.",
  telegram: describeMessenger(
    "Telegram",
    "Bold, italic, links, `code` and code blocks are shown; tables and headings are not.",
    media
  ),
  discord: describeMessenger("Discord", "Markdown is shown, tables are not. A message holds 2,000 characters.", media),
  whatsapp: describeMessenger("WhatsApp", "Write plain text: Markdown is not shown.", media),
  signal: describeMessenger("Signal", "Write plain text: Markdown is not shown.", media),
  sms: describeMessenger(
    "text messages (SMS)",
    "Write plain text, in 1,600 characters at most.",
    "Files cannot be sent."
  ),
  slack: describeMessenger(
    "Slack",
    "Use *bold*, _italic_, `code` and code blocks; headings and tables are not shown.",
    media
  ),
  email:
    "You answer by email. Write a complete message in plain text with short paragraphs; the subject is kept. " + media,
  cron:
    "You run as a scheduled job, and no one is there to answer. Do not ask questions: decide, do the work, and " +
    "give the result as the last message. It is delivered as it is."
}

/** Returns advice for the surface on which the user reads; `undefined` if the surface needs none. */
const findPlatformAdvice = (platform: string): string | undefined =>
  Object.hasOwn(platforms, platform) ? platforms[platform] : undefined

/** A named part of a system prompt. */
export interface PromptLayer {
  readonly name:
    | "identity"
    | "help"
    | "tools"
    | "model"
    | "skills"
    | "environment"
    | "platform"
    | "instructions"
    | "project"
    | "memory"
    | "session"
  readonly text: string
}

/** Location and role of a new session. */
export interface PromptLocation {
  /** Absolute working directory. */
  readonly cwd: string
  /**
   * True for the session of a subagent. It receives its task and the skills for its tools, but no files or memory of
   * the user.
   */
  readonly isChild: boolean
  /** Names of the tools at the start of the session. */
  readonly tools: ReadonlySet<string>
}

/** Texts about the machine and from the user's files. */
export interface Sources {
  /** Identity that replaces the built-in one. */
  readonly identity?: string | undefined
  readonly help?: string | undefined
  readonly skills?: string | undefined
  readonly environment?: ReadonlyArray<string> | undefined
  readonly project?: string | undefined
  /** Working directory of the tools, if different from the session's directory. */
  readonly workingDirectory?: string | undefined
  readonly memory?: ReadonlyArray<string> | undefined
}

/** Reads the {@link Sources} of a new session. Default: no sources. */
export class PromptSources extends Context.Reference<(place: PromptLocation) => Effect.Effect<Sources>>(
  "hermes-effect/prompt/PromptSources",
  { defaultValue: () => () => Effect.succeed({}) }
) {}

/** Data for building a system prompt. */
export interface Parts extends PromptLocation {
  /** Identity that replaces the identity of the sources and the built-in one. */
  readonly identity?: string | undefined
  /** The caller's own instructions. */
  readonly instructions?: string | undefined
  readonly platform: string
  readonly provider: string
  readonly model: string
  /** Session id shown in the last line, if present. */
  readonly sessionId?: string | undefined
  /** Tool-use enforcement. The default is `auto`. */
  readonly enforcement?: Enforcement | undefined
  readonly sources: Sources
}

/** Builds the layers of a system prompt in order; empty layers are omitted. */
export const buildLayers = (parts: Parts): Effect.Effect<ReadonlyArray<PromptLayer>> =>
  Effect.map(Clock.currentTimeMillis, (millis) => {
    const { cwd, isChild, model, platform, provider, sessionId, sources, tools } = parts
    const started = DateTime.formatIsoDate(DateTime.makeUnsafe(millis))
    // The task of a child names its directory and session, so that children of one kind have the same system prompt.
    const directory = sources.workingDirectory ?? (isChild ? undefined : cwd)
    const texts: ReadonlyArray<readonly [PromptLayer["name"], ReadonlyArray<string | undefined>]> = [
      ["identity", [parts.identity ?? sources.identity ?? identity]],
      ["help", [sources.help]],
      ["tools", listToolAdvice(tools)],
      ["model", [...(tools.size === 0 ? [] : listModelAdvice(model, parts.enforcement ?? "auto"))]],
      ["skills", [sources.skills]],
      ["model", [describeModelIdentity(provider, model)]],
      ["environment", sources.environment ?? []],
      // A child answers its parent, so it needs no advice on a platform.
      ["platform", [isChild ? undefined : findPlatformAdvice(platform)]],
      ["instructions", [parts.instructions]],
      ["project", [sources.project]],
      ["memory", sources.memory ?? []],
      [
        "session",
        [
          [
            ...(directory === undefined ? [] : [`Working directory: ${directory}`]),
            `Conversation started: ${started}`,
            ...(sessionId === undefined || isChild ? [] : [`Session ID: ${sessionId}`]),
            `Model: ${model} (${provider})`
          ].join("\n")
        ]
      ]
    ]
    return texts.flatMap(([name, given]) => {
      const text = joinTexts(given)
      return text === "" ? [] : [{ name, text }]
    })
  })

const joinTexts = (texts: ReadonlyArray<string | undefined>): string =>
  texts.flatMap((text) => (text === undefined || text.trim() === "" ? [] : [text.trim()])).join("\n\n")

/** Renders the text of a system prompt. */
export const render = (prompt: ReadonlyArray<PromptLayer>): string => joinTexts(prompt.map(({ text }) => text))

/** Selection of the sources that an agent reads. */
export interface SourceOptions {
  /** Home directory of the agent, which contains `SOUL.md`. Without it, the built-in identity is used. */
  readonly home?: string | undefined
  /** True to read the project instructions of a session's working directory. */
  readonly project?: boolean | undefined
  /** Instruction on how to answer questions about the program. */
  readonly help?: string | undefined
  /** Parts that show the memory across sessions (`MemoryStore`). */
  readonly memory?: Effect.Effect<ReadonlyArray<string>> | undefined
  /** Renders the index of skills for the tools at the start of a session (`SkillStore`). */
  readonly skills?: ((tools: ReadonlySet<string>) => Effect.Effect<string | undefined>) | undefined
  /** Reads an environment variable, to recognize Termux. */
  readonly variable?: ((name: string) => string | undefined) | undefined
  /** Working directory of the tools on another machine; if set, the local machine is not described. */
  readonly remoteDirectory?: string | undefined
  /** Further descriptions of the machine: its sandbox, and hints from the user. */
  readonly environmentHints?: ReadonlyArray<string> | undefined
}

const readFileOrEmpty = (path: string): Effect.Effect<string, never, FileSystem.FileSystem> =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => Effect.orElseSucceed(fs.readFileString(path), () => ""))

/** Describes the machine if it requires special instructions. */
const describeMachine = Effect.fnUntraced(function* ({
  environmentHints = [],
  remoteDirectory,
  variable
}: SourceOptions) {
  if (remoteDirectory !== undefined) return environmentHints
  const fs = yield* FileSystem.FileSystem
  const isThere = (path: string) => Effect.orElseSucceed(fs.exists(path), () => false)
  const hints: Array<string> = []
  if (/microsoft/i.test(yield* readFileOrEmpty("/proc/version"))) {
    hints.push(
      "This machine is the Windows Subsystem for Linux: Windows drives are in /mnt (C: is /mnt/c), and " +
        "programs of Windows run by their names with .exe."
    )
  }
  if (variable?.("TERMUX_VERSION") !== undefined) {
    hints.push(
      "This machine is a phone with Termux: packages come from `pkg`, there is no root, and the home directory " +
        "is not /home."
    )
  }
  if ((yield* isThere("/.dockerenv")) || (yield* isThere("/run/.containerenv"))) {
    hints.push(
      "You work inside a container: changes outside of mounted directories are lost with it, and services of " +
        "the host are not on localhost."
    )
  }
  return [...hints, ...environmentHints]
})

/** Reads the user's files that the options select. Their reader is loaded if there are any to read. */
const readFiles = Effect.fnUntraced(function* ({ home, project }: SourceOptions, cwd: string) {
  if (home === undefined && project !== true) return {}
  const ContextFiles = yield* Effect.promise(() => import("./ContextFiles.ts"))
  const soul = home === undefined ? undefined : yield* ContextFiles.readSoul(home)
  if (project !== true) return { soul }
  const context = yield* ContextFiles.readProjectContext(cwd)
  return { soul, project: { files: context.files, text: ContextFiles.renderProjectContext(context) } }
})

/**
 * Provides sources that read the user's files and the machine as selected by `options`. Files are read once for each
 * new session, and the machine is examined once.
 */
export const layerSources = (options: SourceOptions): Layer.Layer<never, never, FileSystem.FileSystem | Path.Path> =>
  Layer.effect(
    PromptSources,
    Effect.gen(function* () {
      const context = yield* Effect.context<FileSystem.FileSystem | Path.Path>()
      const machine = yield* Effect.cached(describeMachine(options))
      const told = new Set<string>()
      /** Warns the user about content missing from the prompt, once per text. */
      const warnOnce = (text: string) => {
        if (told.has(text)) return Effect.void
        told.add(text)
        return Effect.logWarning(text)
      }
      return ({ cwd, isChild, tools }: PromptLocation) =>
        Effect.gen(function* () {
          const { project, soul } = isChild ? {} : yield* readFiles(options, cwd)
          const describeNotice = ({ hidden, text }: ContextFile): string =>
            hidden === undefined ? text : `${text} Its hidden text: ${JSON.stringify(hidden)}`
          if (soul?.isNotice === true) yield* warnOnce(`${describeNotice(soul)} The built-in identity is used.`)
          for (const file of project?.files ?? []) if (file.isNotice) yield* warnOnce(describeNotice(file))
          return {
            identity: soul?.isNotice === true ? undefined : soul?.text,
            help: isChild ? undefined : options.help,
            skills: yield* options.skills?.(tools) ?? Effect.undefined,
            environment: yield* machine,
            project: project?.text,
            workingDirectory: options.remoteDirectory,
            memory: isChild ? [] : yield* options.memory ?? Effect.succeed([])
          } satisfies Sources
        }).pipe(Effect.provideContext(context))
    })
  )
