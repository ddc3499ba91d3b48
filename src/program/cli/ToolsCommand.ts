/**
 * `hermes tools`: lists the tools, and selects the tools available to runs.
 *
 * Without a platform, a toolset is disabled for all runs (`disabled_toolsets`). Enabling it removes it from that list
 * and, unless a selected toolset includes it, adds it to `toolsets`. With a platform, the list of that platform
 * (`platform_toolsets`) changes; it starts as a copy of the general list.
 *
 * Source: `hermes-product.md` §1.6 and §2.2.
 */
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Edit from "../../base/config/Edit.ts"
import { Settings, type Values } from "../../base/config/Settings.ts"
import * as ServerConfig from "../../tools/mcp/ServerConfig.ts"
import { ToolRegistry } from "../../tools/ToolRegistry.ts"
import * as Toolsets from "../../tools/Toolsets.ts"
import * as CommandSettings from "./CommandSettings.ts"
import { makeUnknownNameFailure, makeUsageFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { hermes } from "./Hermes.ts"
import { Program } from "./Program.ts"
import { printLine } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"
import { selectTools } from "./RunOptions.ts"

interface ListedToolset {
  readonly toolset: string
  readonly tools: ReadonlyArray<{ readonly name: string; readonly description: string; readonly selected: boolean }>
}

/** Returns the first sentence of a tool's description. A colon that introduces a list also ends the sentence. */
export const summariseDescription = (description: string): string => {
  const flat = description.replaceAll(/\s+/g, " ").trim()
  return (/^.*?[.:](?= |$)/.exec(flat)?.[0] ?? flat).replace(/:$/, ".")
}

const listToolsets = Effect.fnUntraced(function* (settings: Values) {
  const registry = yield* ToolRegistry
  const selection = yield* selectTools(yield* hermes, settings)
  const { get } = yield* registry.snapshot(selection)
  const sets = yield* registry.list
  return sets.map(({ tools, toolset }): ListedToolset => ({
    toolset,
    tools: tools.map(({ definition: { description, name } }) => ({
      name,
      description,
      selected: get(name) !== undefined
    }))
  }))
})

/** Returns the toolsets whose tools are all unavailable. */
const findMissingToolsets = (sets: ReadonlyArray<ListedToolset>): ReadonlyArray<string> => {
  const tools = new Set(sets.flatMap(({ tools }) => tools.map(({ name }) => name)))
  const own = Object.entries(Toolsets.catalogue).flatMap(([name, { includes }]) =>
    includes === undefined ? [name] : []
  )
  return Toolsets.findEmptyNames(own, tools)
}

const renderToolset = ({ tools, toolset }: ListedToolset): string => {
  const width = Math.max(...tools.map(({ name }) => name.length))
  const rows = tools.map(
    ({ description, name, selected }) =>
      `  ${selected ? "+" : "-"} ${name.padEnd(width)}  ${summariseDescription(description)}`
  )
  return [toolset, ...rows].join("\n")
}

const formatToolsetCount = ({ tools, toolset }: ListedToolset): string => {
  const count = tools.filter(({ selected }) => selected).length
  return `${count === 0 ? "-" : "+"} ${toolset}: ${count} of ${tools.length} tools`
}

const listFlags = {
  json: Flags.makeSwitch("json", "Print JSON"),
  summary: Flags.makeSwitch("summary", "One line per toolset")
}

const listAll = Effect.fn("hermes tools")(function* ({
  json,
  summary: isSummary
}: {
  readonly json: boolean
  readonly summary: boolean
}) {
  const program = yield* Program
  const settings = yield* Settings
  const sets = yield* listToolsets(settings).pipe(Effect.provide(program.layer(settings, { withoutModel: true })))
  if (json) return yield* printLine(SafeText.toJson(sets, 2))
  if (isSummary) return yield* printLine(sets.map(formatToolsetCount).join("\n"))
  const composed = Object.entries(Toolsets.catalogue).flatMap(([name, { includes }]) =>
    includes === undefined ? [] : [name]
  )
  yield* printLine(
    [
      ...sets.map(renderToolset),
      "+ selected, - not selected (change with --toolsets, toolsets and disabled_toolsets)",
      `Composite toolsets: ${composed.join(", ")}, all`,
      `Toolsets without tools in this version: ${findMissingToolsets(sets).join(", ")}`
    ].join("\n\n")
  )
}, CommandSettings.provide)

/** Toolsets that were changed. */
interface ToolsetChange {
  readonly toolset: ReadonlyArray<string>
  readonly platform: string | undefined
}

/** Returns `undefined` instead of an empty list. */
const omitEmpty = (names: ReadonlyArray<string>): ReadonlyArray<string> | undefined =>
  names.length === 0 ? undefined : names

/** Lists the toolsets of enabled plugins, which are known only to a runtime. */
const listRegisteredToolsets = Effect.fnUntraced(function* (settings: Values) {
  const program = yield* Program
  const sets = yield* Effect.provide(
    ToolRegistry.use(({ list }) => list),
    program.layer(settings, { withoutModel: true })
  )
  return sets.map(({ toolset }) => toolset)
})

/** Returns the names if each is a toolset. A runtime is built only for names that are not built-in toolsets. */
const checkToolsets = Effect.fnUntraced(function* (names: ReadonlyArray<string>, settings: Values) {
  const servers = Object.keys(settings.mcpServers)
  const own = ["all", ...Object.keys(Toolsets.catalogue), ...servers, ...servers.map(ServerConfig.formatToolsetName)]
  const others = names.filter((name) => !own.includes(name))
  if (others.length === 0) return names
  const known = [...own, ...(yield* listRegisteredToolsets(settings))]
  const unknown = others.find((name) => !known.includes(name))
  return unknown === undefined
    ? names
    : yield* makeUnknownNameFailure("toolset", unknown, { known, list: "hermes tools" })
})

/** Returns true if the selected toolsets include all tools of this toolset. */
const hasAllTools = (chosen: ReadonlyArray<string>, name: string): boolean => {
  const all = new Set(chosen.flatMap((one) => [...Toolsets.listTools(one)]))
  const own = [...Toolsets.listTools(name)]
  return chosen.includes(name) || (own.length > 0 && own.every((tool) => all.has(tool)))
}

const getChosenToolsets = (
  { platformToolsets, toolsets }: Values,
  platform: string | undefined
): ReadonlyArray<string> => (platform === undefined ? toolsets : (platformToolsets[platform] ?? toolsets))

const toSettingsPath = (platform: string | undefined): ReadonlyArray<string> =>
  platform === undefined ? ["toolsets"] : ["platform_toolsets", platform]

const reportChange = (what: string, { platform, toolset }: ToolsetChange, file: string) =>
  printLine(
    `${what} ${toolset.join(", ")}${platform === undefined ? "" : ` for ${platform}`} in ${file}; it takes ` +
      "effect in the next run"
  )

const changedFlags = {
  toolset: Argument.String("toolset").pipe(Argument.withDescription("Toolset names"), Argument.atLeast(1)),
  platform: Flags.makeText("platform", "NAME", "Only for this platform: cli, cron, …")
}

const enable = Command.make(
  "enable",
  changedFlags,
  Effect.fn("hermes tools enable")(function* (changed) {
    const settings = yield* Settings
    const names = yield* checkToolsets(changed.toolset, settings)
    const chosen = getChosenToolsets(settings, changed.platform)
    const missing = names.filter((name) => !hasAllTools(chosen, name))
    const disabled = names.find((name) => settings.disabledToolsets.includes(name))
    if (changed.platform !== undefined && disabled !== undefined) {
      return yield* makeUsageFailure(`${disabled} is disabled for all: enable it without --platform`)
    }
    const { file } = yield* Edit.modify(["disabled_toolsets"], (value) =>
      omitEmpty(CommandSettings.selectTexts(value).filter((name) => !names.includes(name)))
    )
    if (missing.length > 0) yield* Edit.modify(toSettingsPath(changed.platform), () => [...chosen, ...missing])
    yield* reportChange("enabled", changed, file)
  }, CommandSettings.provide)
).pipe(Command.withDescription("Enable toolsets"))

const disable = Command.make(
  "disable",
  changedFlags,
  Effect.fn("hermes tools disable")(function* (changed) {
    const settings = yield* Settings
    const names = yield* checkToolsets(changed.toolset, settings)
    if (changed.platform === undefined) {
      const { file } = yield* Edit.modify(["disabled_toolsets"], (value) => [
        ...new Set([...CommandSettings.selectTexts(value), ...names])
      ])
      return yield* reportChange("disabled", changed, file)
    }
    const rest = getChosenToolsets(settings, changed.platform).filter((name) => !names.includes(name))
    const still = names.find((name) => hasAllTools(rest, name))
    if (still !== undefined) {
      return yield* makeUsageFailure(
        `${still} is included in ${rest.join(", ")}: list other toolsets in platform_toolsets.${changed.platform}, or ` +
          "disable it for all"
      )
    }
    if (rest.length === 0) return yield* makeUsageFailure(`${changed.platform} needs at least one toolset`)
    const { file } = yield* Edit.modify(toSettingsPath(changed.platform), () => rest)
    yield* reportChange("disabled", changed, file)
  }, CommandSettings.provide)
).pipe(Command.withDescription("Disable toolsets"))

/** The command `hermes tools`. */
export const command = Command.make("tools", listFlags, listAll).pipe(Command.withSubcommands([enable, disable]))
