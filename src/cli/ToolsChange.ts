/**
 * Actions of `hermes tools enable | disable`: changes which toolsets the runs to come get, in the configuration.
 *
 * Without a platform a toolset is disabled for all runs (`disabled_toolsets`), and enabled by being taken from there and, where
 * no chosen toolset brings it, by being chosen (`toolsets`). With one, the list of that platform (`platform_toolsets`) changes;
 * it begins as the general one.
 *
 * Source: `hermes-product.md` §1.6 and §2.2.
 */
import * as Effect from "effect/Effect"
import * as Config from "../config/Config.ts"
import * as Edit from "../config/Edit.ts"
import { Settings, type Values } from "../config/Settings.ts"
import * as McpNames from "../tool/mcp/McpNames.ts"
import { ToolRegistry } from "../tool/ToolRegistry.ts"
import * as Toolsets from "../tool/Toolsets.ts"
import { unknownName, usage } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { line } from "./ProgramOutput.ts"
import { Program } from "./Program.ts"

/** Changed toolsets. */
export interface Changed {
  readonly toolset: ReadonlyArray<string>
  readonly platform: string | undefined
}

const texts = (value: unknown): ReadonlyArray<string> => Array.isArray(value) ? value.filter((item) => typeof item === "string") : []

/** Absent rather than empty. */
const listed = (names: ReadonlyArray<string>): ReadonlyArray<string> | undefined => names.length === 0 ? undefined : names

/** Toolsets of the plugins that are enabled, which only a runtime knows. */
const registered = Effect.fnUntraced(function*(settings: Values) {
  const program = yield* Program
  const sets = yield* Effect.provide(ToolRegistry.use(({ list }) => list), program.layer(settings, { withoutModel: true }))
  return sets.map(({ toolset }) => toolset)
})

/** The names, when each is a toolset; a runtime is built only for those that the program itself does not have. */
const checked = Effect.fnUntraced(function*(names: ReadonlyArray<string>, settings: Values) {
  const servers = Object.keys(settings.mcpServers)
  const own = ["all", ...Object.keys(Toolsets.catalogue), ...servers, ...servers.map(McpNames.toolset)]
  const others = names.filter((name) => !own.includes(name))
  if (others.length === 0) return names
  const known = [...own, ...yield* registered(settings)]
  const unknown = others.find((name) => !known.includes(name))
  return unknown === undefined ? names : yield* unknownName("toolset", unknown, { known, list: "hermes tools" })
})

/** Tells if a selected toolset has all tools of this one. */
const brings = (chosen: ReadonlyArray<string>, name: string): boolean => {
  const all = new Set(chosen.flatMap((one) => [...Toolsets.toolsOf(one)]))
  const own = [...Toolsets.toolsOf(name)]
  return chosen.includes(name) || own.length > 0 && own.every((tool) => all.has(tool))
}

const withSettings = <E, R>(flags: Flags.Globals, work: Effect.Effect<void, E, R>) =>
  Effect.provide(work, Config.layerAll(Flags.configOptions(flags)))

const chosenFor = ({ platformToolsets, toolsets }: Values, platform: string | undefined): ReadonlyArray<string> =>
  platform === undefined ? toolsets : platformToolsets[platform] ?? toolsets

const placeOf = (platform: string | undefined): ReadonlyArray<string> => platform === undefined ? ["toolsets"] : ["platform_toolsets", platform]

const told = (what: string, { platform, toolset }: Changed, file: string) =>
  line(`${what} ${toolset.join(", ")}${platform === undefined ? "" : ` for ${platform}`} in ${file}: the next run has it so`)

/** Lets runs have toolsets. */
export const enable = Effect.fn("hermes tools enable")(function*(flags: Flags.Globals, changed: Changed) {
  yield* withSettings(flags, Effect.gen(function*() {
    const settings = yield* Settings
    const names = yield* checked(changed.toolset, settings)
    const chosen = chosenFor(settings, changed.platform)
    const missing = names.filter((name) => !brings(chosen, name))
    const disabled = names.find((name) => settings.disabledToolsets.includes(name))
    if (changed.platform !== undefined && disabled !== undefined) {
      return yield* usage(`${disabled} is disabled for all: enable it without --platform`)
    }
    const { file } = yield* Edit.modify(["disabled_toolsets"], (value) => listed(texts(value).filter((name) => !names.includes(name))))
    if (missing.length > 0) yield* Edit.modify(placeOf(changed.platform), () => [...chosen, ...missing])
    yield* told("enabled", changed, file)
  }))
})

/** Keeps toolsets from runs. */
export const disable = Effect.fn("hermes tools disable")(function*(flags: Flags.Globals, changed: Changed) {
  yield* withSettings(flags, Effect.gen(function*() {
    const settings = yield* Settings
    const names = yield* checked(changed.toolset, settings)
    if (changed.platform === undefined) {
      const { file } = yield* Edit.modify(["disabled_toolsets"], (value) => [...new Set([...texts(value), ...names])])
      return yield* told("disabled", changed, file)
    }
    const rest = chosenFor(settings, changed.platform).filter((name) => !names.includes(name))
    const still = names.find((name) => brings(rest, name))
    if (still !== undefined) {
      return yield* usage(`${still} comes with ${rest.join(", ")}: list others in platform_toolsets.${changed.platform}, or disable it for all`)
    }
    if (rest.length === 0) return yield* usage(`nothing would be left for ${changed.platform}: leave it one toolset`)
    const { file } = yield* Edit.modify(placeOf(changed.platform), () => rest)
    yield* told("disabled", changed, file)
  }))
})
