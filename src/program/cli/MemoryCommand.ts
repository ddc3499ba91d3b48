/**
 * `hermes memory` and `/memory`: shows the memory shared by sessions, lets the user edit it, and selects an external
 * memory.
 *
 * **Details**
 *
 * `edit` opens a copy of the entries in the user's editor, or takes text from stdin. If the text cannot be stored,
 * nothing is changed (an entry looks like an injected instruction, the text is too long, or the entries were changed in
 * the meantime). Edited text is then saved to a file that the error names.
 *
 * `setup` writes the selected external memory, which an enabled plugin provides, to `config.yaml` (`memory.provider`);
 * `off` removes it. The built-in memory and its entries are unchanged.
 *
 * Source: `hermes-product.md` §1.6, §1.8.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Prompt from "effect/cli/Prompt"
import * as Edit from "../../base/config/Edit.ts"
import { Home } from "../../base/config/Environment.ts"
import { Settings } from "../../base/config/Settings.ts"
import { describeReason } from "../../base/domain/PathProblem.ts"
import { Plugins } from "../../agent/plugin/Plugins.ts"
import * as MemoryStore from "../../tools/prompt/MemoryStore.ts"
import { readStdin } from "./ChatCommand.ts"
import * as CommandSettings from "./CommandSettings.ts"
import { editFile } from "./ConfigCommand.ts"
import { makeWorkFailure, makeUnknownNameFailure, makeUsageFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { Program } from "./Program.ts"
import { printError, type DialogCommand, printLines } from "./interactive/Dialog.ts"
import { stay } from "./interactive/SlashCommands.ts"
import { printLine, printNote, Output } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"

const titles: Readonly<Record<MemoryStore.Target, string>> = { memory: "Notes of the agent", user: "About the user" }

/** Opens the memory of the home directory with the limits of the settings. */
export const store = Effect.gen(function* () {
  return yield* MemoryStore.makeFromSettings(yield* Settings, yield* Home)
})

/** Renders a memory file as lines. */
const renderTarget = (
  target: MemoryStore.Target,
  entries: ReadonlyArray<string>,
  limit: number
): ReadonlyArray<string> => [
  `${titles[target]} (${target}): ${MemoryStore.formatUsage(entries, limit)}`,
  ...(entries.length === 0
    ? ["  nothing yet"]
    : entries.flatMap((entry) =>
        SafeText.toPlainText(entry)
          .split("\n")
          .map((text, at) => `${at === 0 ? "- " : "  "}${text}`)
      ))
]

const readTargets = (memory: MemoryStore.Service, targets: ReadonlyArray<MemoryStore.Target>) =>
  Effect.forEach(targets, (target) =>
    Effect.map(memory.entries(target), (entries) => ({ target, entries, limit: memory.getFileLimit(target) }))
  )

const off = "The memory is turned off: set memory.memory_enabled or memory.user_profile_enabled"

/** Returns the named target, or all targets in use. */
const selectTargets = Effect.fnUntraced(function* (
  memory: MemoryStore.Service,
  wanted: MemoryStore.Target | undefined
) {
  if (memory.targets.length === 0) return yield* makeWorkFailure(off)
  if (wanted === undefined) return memory.targets
  if (!memory.targets.includes(wanted)) return yield* makeWorkFailure(`${wanted} is turned off in the settings`)
  return [wanted]
})

const all: ReadonlyArray<MemoryStore.Target> = ["memory", "user"]

const target = Argument.Literals("target", all).pipe(
  Argument.withDescription("memory: notes of the agent; user: what it knows about you")
)
const json = Flags.makeSwitch("json", "Print JSON")

const showMemory = Effect.fn("hermes memory show")(function* ({
  json,
  wanted
}: {
  readonly json: boolean
  readonly wanted?: MemoryStore.Target | undefined
}) {
  const memory = yield* store
  const found = yield* readTargets(memory, yield* selectTargets(memory, wanted))
  if (json) {
    return yield* printLine(
      SafeText.toJson(
        found.map(({ entries, limit, target }) => ({
          target,
          entries,
          characters: MemoryStore.countChars(entries),
          limit
        })),
        2
      )
    )
  }
  yield* printLine(
    found.map(({ entries, limit, target }) => renderTarget(target, entries, limit).join("\n")).join("\n\n")
  )
}, CommandSettings.provide)

const show = Command.make("show", { json, target: Argument.atLeast(target, 0) }, ({ json, target: [wanted] }) =>
  showMemory({ json, wanted })
).pipe(Command.withDescription("Show the entries"))

/**
 * Reads the text that replaces `before`, from the editor or from stdin. `kept` is the path at which edited text is
 * saved.
 */
const readNewText = Effect.fnUntraced(function* (target: MemoryStore.Target, before: string) {
  const { terminal } = yield* Output
  if (!terminal.input) {
    if (terminal.piped === undefined)
      return yield* makeUsageFailure("Not a terminal. Pipe the new entries in, separated by lines of §.")
    const text = yield* Effect.mapError(readStdin(), (error) =>
      error._tag === "Failure" ? error : makeUsageFailure(`cannot read stdin: ${describeReason(error)}`)
    )
    if (text.trim() === "")
      return yield* makeUsageFailure("stdin is empty, so nothing was changed. To remove all entries, use the editor.")
    return { text, kept: undefined }
  }
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const kept = yield* Effect.gen(function* () {
    const path = paths.join(yield* fs.makeTempDirectory({ prefix: "hermes-memory-" }), `${target.toUpperCase()}.md`)
    yield* fs.writeFileString(path, before, { mode: 0o600 })
    return path
  }).pipe(Effect.mapError((error) => makeWorkFailure(`cannot create a copy for the editor: ${describeReason(error)}`)))
  yield* editFile(kept)
  return {
    text: yield* Effect.mapError(fs.readFileString(kept), (error) =>
      makeWorkFailure(`${kept}: ${describeReason(error)}`)
    ),
    kept
  }
})

const edit = Command.make(
  "edit",
  { target: Argument.atLeast(target, 0) },
  Effect.fn("hermes memory edit")(function* ({ target: [wanted = "memory"] }) {
    const memory = yield* store
    const home = yield* Home
    yield* selectTargets(memory, wanted)
    yield* home.ensure
    const before = yield* memory.entries(wanted)
    const { kept, text } = yield* readNewText(wanted, MemoryStore.render(before))
    const saved = yield* memory
      .rewrite(wanted, before, text)
      .pipe(
        Effect.catchTag("MemoryRefused", ({ message }) =>
          Effect.fail(
            makeUsageFailure(
              `not saved: ${SafeText.toLine(message)}${kept === undefined ? "" : `. Your text is in ${kept}`}`
            )
          )
        )
      )
    if (kept !== undefined) {
      const paths = yield* Path.Path
      yield* Effect.catch((yield* FileSystem.FileSystem).remove(paths.dirname(kept), { recursive: true }), (error) =>
        printNote(`${kept} remains: ${describeReason(error)}`)
      )
    }
    yield* printLine(
      `saved ${saved.entries.length} ${saved.entries.length === 1 ? "entry" : "entries"} of ${wanted} ` +
        `(${MemoryStore.formatUsage(saved.entries, saved.limit)})`
    )
    yield* printNote("New sessions use it; existing sessions keep their prompt.")
  }, CommandSettings.provide)
).pipe(Command.withDescription("Edit entries in $VISUAL or $EDITOR, or replace them from stdin; § lines separate them"))

const switches: Readonly<Record<MemoryStore.Target, string>> = {
  memory: "memory.memory_enabled",
  user: "memory.user_profile_enabled"
}

const status = Command.make(
  "status",
  { json },
  Effect.fn("hermes memory status")(function* ({ json }) {
    const memory = yield* store
    const {
      memory: { provider }
    } = yield* Settings
    const used = yield* readTargets(memory, memory.targets)
    const found = all.map((target) => ({ target, use: used.find((one) => one.target === target) }))
    if (json) {
      const targets = found.map(({ target, use }) =>
        use === undefined
          ? { target, enabled: false }
          : {
              target,
              enabled: true,
              entries: use.entries.length,
              characters: MemoryStore.countChars(use.entries),
              limit: use.limit
            }
      )
      return yield* printLine(SafeText.toJson({ targets, provider: provider ?? null }, 2))
    }
    yield* printLine(
      [
        ...found.map(
          ({ target, use }) =>
            `${titles[target]} (${target}): ` +
            `${use === undefined ? `off (${switches[target]})` : MemoryStore.formatUsage(use.entries, use.limit)}`
        ),
        `External memory: ${provider === undefined ? "none" : `${SafeText.toLine(provider)}, from an enabled plugin (\`hermes plugins list\`)`}`
      ].join("\n")
    )
  }, CommandSettings.provide)
).pipe(Command.withDescription("Show which parts of the memory are enabled, and the external memory"))

/** The external memory selected by the settings. */
const chosen = CommandSettings.provide(Effect.map(Settings, ({ memory }) => memory.provider))

/** Creates a failure for a setting that an environment variable overrides. */
const makeOverruledFailure = (key: string, left: string) =>
  makeWorkFailure(
    `${key} is ${JSON.stringify(SafeText.toLine(left))} by HERMES_MEMORY__PROVIDER: remove it from the ` +
      "environment or from .env"
  )

/** Names of the external memories provided by enabled plugins. */
const brought = Effect.gen(function* () {
  const settings = yield* Settings
  const { provider: _, ...memory } = settings.memory
  const program = yield* Program
  const layer = program.layer({ ...settings, memory }, { withoutModel: true })
  const { memoryProviders } = yield* Effect.provide(
    Effect.flatMap(Plugins, ({ loaded }) => loaded),
    layer
  )
  return Array.from(new Set(memoryProviders.map(({ name }) => name)))
})

/** Returns the external memory selected by the user. */
const chooseProvider = Effect.fnUntraced(function* (given: string | undefined, names: ReadonlyArray<string>) {
  if (given !== undefined) {
    return names.includes(given)
      ? given
      : yield* makeUnknownNameFailure("external memory", SafeText.toLine(given), {
          known: names.map(SafeText.toLine),
          list: "hermes memory setup"
        })
  }
  if (names.length === 0)
    return yield* makeWorkFailure(
      "no enabled plugin provides an external memory: see `hermes plugins list`, and enable one with " +
        "`hermes plugins enable`"
    )
  const { terminal } = yield* Output
  if (!terminal.input)
    return yield* makeUsageFailure(
      `Not a terminal. Name one: hermes memory setup ${names.map(SafeText.toLine).join(" | ")}`
    )
  const choices = names.map((name) => ({ title: SafeText.toLine(name), value: name }))
  return yield* Effect.mapError(Prompt.run(Prompt.Select({ message: "External memory", choices })), () =>
    makeWorkFailure("nothing was changed")
  )
})

const setup = Command.make(
  "setup",
  {
    name: Argument.String("name").pipe(
      Argument.withDescription("Name of the external memory, as its plugin calls it"),
      Argument.optional
    )
  },
  Effect.fn("hermes memory setup")(function* ({ name }) {
    const provider = yield* CommandSettings.provide(
      Effect.flatMap(brought, (names) => chooseProvider(Option.getOrUndefined(name), names))
    )
    const { file, key } = yield* Effect.provide(Edit.set("memory.provider", provider), Home.layer)
    const left = yield* chosen
    if (left !== provider) return yield* makeOverruledFailure(key, left ?? "")
    yield* printLine(`${key} is ${JSON.stringify(SafeText.toLine(provider))} in ${file}: new sessions use it`)
  })
).pipe(Command.withDescription("Choose an external memory from the enabled plugins"))

const turnOff = Command.make(
  "off",
  {},
  Effect.fn("hermes memory off")(function* () {
    const { key, file, wasSet } = yield* Effect.provide(Edit.unset("memory.provider"), Home.layer)
    const left = yield* chosen
    if (left !== undefined) return yield* makeOverruledFailure(key, left)
    yield* printLine(
      wasSet ? `removed ${key} from ${file}: only the built-in memory is used` : "no external memory is set"
    )
  })
).pipe(Command.withDescription("Stop using an external memory: remove memory.provider from config.yaml"))

/** Without a subcommand, shows the entries. */
export const command = Command.make("memory", { json }, ({ json }) => showMemory({ json })).pipe(
  Command.withSubcommands([show, edit, status, setup, turnOff])
)

/** Creates the command `/memory` of a conversation. */
export const makeDialogCommand = (memory: MemoryStore.Service): DialogCommand => ({
  name: "memory",
  help: "Show the memory across sessions",
  run: (_, dialog) =>
    readTargets(memory, memory.targets).pipe(
      Effect.match({
        onFailure: (error) => printError(dialog, error),
        onSuccess: (found) =>
          printLines(
            dialog,
            ...(found.length === 0
              ? [off]
              : found.flatMap(({ entries, limit, target }) => [...renderTarget(target, entries, limit), ""])),
            dialog.screen.asidePaint.text("Edit it with `hermes memory edit`. New sessions use it.", "dim"),
            ""
          )
      }),
      Effect.as(stay)
    )
})
