/**
 * Options of every command-line run except its prompt: tools, limits and label. Also prints the notice before the first
 * run.
 *
 * The tools are selected by the flag, the platform's list or the general list of toolsets.
 *
 * Source: `hermes-product.md` §1.4 and §2.2.
 */
import * as Effect from "effect/Effect"
import type { RunInput } from "../../agent/RunInput.ts"
import * as DefaultModel from "../../base/config/DefaultModel.ts"
import type { AgentFile } from "../../base/config/AgentFile.ts"
import type { Values } from "../../base/config/Settings.ts"
import * as Offline from "../../models/provider/Offline.ts"
import { ModelRouter } from "../../models/routing/ModelRouter.ts"
import type { Session } from "../../store/SessionStore.ts"
import { type Selection, ToolRegistry } from "../../tools/ToolRegistry.ts"
import * as Toolsets from "../../tools/Toolsets.ts"
import { type Failure, makeUsageFailure } from "./Failure.ts"
import type * as Flags from "./Flags.ts"
import { printNote, type Output } from "./ProgramOutput.ts"

/** Returns the toolsets selected for a run. */
const selectToolsets = (flags: Pick<Flags.Globals, "toolsets">, settings: Values): ReadonlyArray<string> =>
  flags.toolsets === undefined ? (settings.platformToolsets["cli"] ?? settings.toolsets) : settings.toolsets

/** Selects the tools of a run, and prints warnings about unknown names. */
export const selectTools = Effect.fnUntraced(function* (
  flags: Pick<Flags.Globals, "toolsets">,
  settings: Values
): Effect.fn.Return<Selection, Failure, Output | ToolRegistry> {
  const registry = yield* ToolRegistry
  const sets = yield* registry.list
  const toolsets = selectToolsets(flags, settings)
  const foreign = sets.map(({ toolset }) => toolset).filter((name) => !Object.hasOwn(Toolsets.catalogue, name))
  const { names, selection, unknown } = Toolsets.resolve({ toolsets, disabled: settings.disabledToolsets, foreign })
  for (const { name, nearest } of unknown) {
    yield* printNote(
      `Warning: unknown toolset "${name}" is ignored: ${
        nearest === undefined ? "`hermes tools` lists the toolsets" : `did you mean "${nearest}"?`
      }`
    )
  }
  if (names.length === 0) {
    return yield* makeUsageFailure("no known toolset selected: `hermes tools` lists the toolsets")
  }
  if (flags.toolsets !== undefined) {
    const tools = new Set(sets.flatMap(({ tools }) => tools.map(({ tool }) => tool.name)))
    const registered = new Set(sets.map(({ toolset }) => toolset))
    for (const name of Toolsets.findEmptyNames(names, tools)) {
      if (registered.has(name)) continue
      yield* printNote(`Note: toolset "${name}" has no tools in this version`)
    }
  }
  return selection
})

/** Returns the tools named by an agent file, or `undefined` if the file names no tools. An unknown name is an error. */
export const selectAgentTools = (
  agent: AgentFile | undefined,
  sets: Toolsets.RegisteredToolsets,
  settings: Pick<Values, "disabledToolsets">
): Effect.Effect<Selection | undefined, Failure> => {
  if (agent?.tools === undefined) return Effect.undefined
  const withAgents = agent.subAgents.length > 0 ? [...agent.tools, Toolsets.ofSubAgents] : agent.tools
  const { selection, unknown } = Toolsets.choose(withAgents, sets, settings.disabledToolsets)
  const [first] = unknown
  return first === undefined
    ? Effect.succeed(selection)
    : Effect.fail(
        makeUsageFailure(
          `${agent.file.name}: tools: there is no toolset or tool "${first.name}": ` +
            `${first.nearest === undefined ? "`hermes tools` lists them" : `did you mean "${first.nearest}"?`}`
        )
      )
}

/** The flags of `hermes chat`, and the agent file named by them. */
export type ChatFlags = Flags.Globals & Flags.Chat & { readonly agentFile?: AgentFile | undefined }

type RunOptions = Pick<RunInput, "maxIterations" | "source" | "streaming" | "tools">

/** Prints a notice if the settings do not select the model: a key in the environment, or nothing. */
const mentionUnselectedModel = Effect.fnUntraced(function* (
  { script }: { readonly script?: string | undefined },
  settings: Values
) {
  const router = yield* ModelRouter
  const { provider } = yield* router.primary
  const chosen = script === undefined ? DefaultModel.describeChoice(settings) : undefined
  if (chosen !== undefined) return yield* printNote(`Note: ${chosen}`)
  const { model } = settings
  const isMeant = script !== undefined || model.provider.toLowerCase() === provider || model.default === provider
  if (provider === Offline.route.provider && !isMeant) yield* printNote(`Note: ${Offline.notice}`)
})

/** Creates the options of a run from flags and settings. Fails with a usage error if a flag cannot be used. */
export const prepare = Effect.fnUntraced(function* (
  flags: ChatFlags,
  settings: Values
): Effect.fn.Return<RunOptions, Failure, ModelRouter | Output | ToolRegistry> {
  const own =
    flags.toolsets === undefined && flags.agentFile !== undefined
      ? yield* Effect.flatMap(
          ToolRegistry.use(({ list }) => list),
          (sets) => selectAgentTools(flags.agentFile, sets, settings)
        )
      : undefined
  const tools = own ?? (yield* selectTools(flags, settings))
  yield* mentionUnselectedModel(flags, settings)
  return {
    tools,
    source: flags.source ?? (flags.oneshot ? "oneshot" : "cli"),
    maxIterations: settings.agent.maxTurns,
    streaming: settings.model.streaming && settings.display.streaming
  }
})

/** Prints which flags for the system prompt have no effect because a session retains its original prompt. */
export const mentionKept = (
  flags: Pick<Flags.Globals, "ignoreRules" | "passSessionId">,
  known: Session | undefined
): Effect.Effect<void, never, Output> => {
  const given = [
    ...(flags.ignoreRules ? ["--ignore-rules"] : []),
    ...(flags.passSessionId ? ["--pass-session-id"] : [])
  ]
  return known === undefined || given.length === 0
    ? Effect.void
    : printNote(
        `Warning: ${given.join(" and ")} ${given.length === 1 ? "has" : "have"} no effect: session ` +
          `${known.id} keeps its system prompt`
      )
}
