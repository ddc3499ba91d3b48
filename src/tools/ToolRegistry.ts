/**
 * The tools of a runtime, in order of registration. Each step uses a snapshot: tools that are added or removed while it
 * runs are visible to the next step.
 *
 * **Details**
 *
 * If several tools have the same name, the first is used; later ones are omitted and reported, so that nothing silently
 * replaces a built-in. Until a tool is registered or removed, the same selection returns the same snapshot object, so
 * that derived values (a provider's tool list) are computed once. A tool that reports itself unavailable is omitted.
 *
 * **Gotchas**
 *
 * Calls of a tool without annotations run one after another. A layer of toolsets logs the names of such tools once, at
 * level debug.
 *
 * **Example** (The tools available to an agent)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { FileTools, Runtime, ToolRegistry } from "hermes-effect"
 *
 * const program = Effect.gen(function*() {
 *   const registry = yield* ToolRegistry.ToolRegistry
 *   return (yield* registry.snapshot({ tool: (name) => name === "read_file" })).names
 * })
 *
 * console.log(await Effect.runPromise(Effect.provide(program, Runtime.layer({ tools: [FileTools.toolset] }))))
 * // => [ 'read_file' ]
 * ```
 *
 * Source: `hermes-product.md` §2.1.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import type { ToolDefinition } from "../base/domain/ModelCall.ts"
import type { ConfigError } from "../base/domain/AgentError.ts"
import * as OrderedList from "../base/domain/OrderedList.ts"
import * as RunContext from "../base/domain/RunContext.ts"
import type { TupleLike } from "../base/domain/TupleLike.ts"
import * as IsolatedCall from "../base/domain/IsolatedCall.ts"
import type { Any, BoundTool, Toolset } from "./Toolset.ts"

// Availability of a tool, determined by the tool's own check, for example that a service answers or a program is
// installed. An unavailable tool is not offered to the model.
//
// **Details**
//
// A result is valid for {@link holds}. A failure soon after a success ({@link flake}) is ignored as transient, and the
// tool stays available. A check that fails, dies or takes longer than {@link deadline} means that the tool is
// unavailable.
//
// Source: `hermes-product.md` §2.1, case 38.

/** Time for which a result is valid, in milliseconds. */
export const availabilityHolds = 30_000
/** Time after a success during which a failure is ignored, in milliseconds. */
export const availabilityGrace = 60_000
/** Maximum duration of a check. */
export const availabilityDeadline = "5 seconds"

/** Returns the current availability, possibly from a recent check. */
export type AvailabilityWatch = Effect.Effect<boolean>

/** Watches the availability of one tool. */
export const watchAvailability = (tool: string, check: Effect.Effect<boolean, unknown>): AvailabilityWatch => {
  let known: { readonly at: number; readonly isAvailable: boolean } | undefined
  let succeeded: number | undefined
  const ask = IsolatedCall.contain(check, {
    what: `the check of ${tool}`,
    deadline: Duration.fromInputUnsafe(availabilityDeadline)
  }).pipe(
    Effect.catchCause((cause) =>
      Effect.as(Effect.logDebug(`the check of the tool ${tool} failed, so it is not offered`, cause), false)
    )
  )
  return Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    if (known !== undefined && now - known.at < availabilityHolds) return known.isAvailable
    const answer = yield* ask
    if (answer) succeeded = now
    const isAvailable = answer || (succeeded !== undefined && now - succeeded < availabilityGrace)
    known = { at: now, isAvailable }
    return isAvailable
  })
}

/** Selection of the registered tools that a run may use. */
export interface Selection {
  /** Returns true if the tools of a toolset are offered. By default, all toolsets are offered. */
  readonly toolset?: ((name: string) => boolean) | undefined
  /** Returns true if a single tool is offered. By default, all tools are offered. */
  readonly tool?: ((name: string) => boolean) | undefined
  /**
   * Returns true if the children of the run do not receive a toolset. By default, children receive every toolset of the
   * run.
   */
  readonly ofRunAlone?: ((name: string) => boolean) | undefined
  /** Returns the answer to a call of a tool that is registered but not offered. The default is a fixed text. */
  readonly refusal?: ((name: string) => string) | undefined
}

/** The tools of one step. */
export interface Snapshot {
  readonly definitions: ReadonlyArray<ToolDefinition>
  /** Finds a tool by the exact name that the model received. */
  readonly get: (name: string) => BoundTool | undefined
  readonly names: ReadonlyArray<string>
  /** Explains why a registered tool is not offered to this run; `undefined` for every other name. */
  readonly withheld: (name: string) => string | undefined
}

/** Tests whether a name is neither a tool of the step nor a registered tool that is not offered to the run. */
export const isUnknownTool = ({ get, withheld }: Snapshot, name: string): boolean =>
  get(name) === undefined && withheld(name) === undefined

/** Selects every registered tool. */
export const everything: Selection = {}

/** The tools of a runtime, in the order in which they were registered. */
export interface Service {
  /**
   * Adds a toolset until the scope closes: after all others when `zone` is absent, otherwise at the end of that
   * part. Tools with the name of another tool are left out.
   */
  readonly register: <E, R>(toolset: Toolset<E, R>, zone?: OrderedList.Zone) => Effect.Effect<void, E, R | Scope.Scope>
  /** Adds a toolset until the scope closes. Its tools replace other tools with the same names. */
  readonly override: <E, R>(toolset: Toolset<E, R>) => Effect.Effect<void, E, R | Scope.Scope>
  /**
   * Adds toolsets at a position of the list until the scope closes; of tools with one name the first is used.
   * Fails for a position that names no toolset, if an agent exists already; otherwise {@link settle} fails.
   */
  readonly add: <E, R>(
    toolsets: ReadonlyArray<Toolset<E, R>>,
    position: OrderedList.Position
  ) => Effect.Effect<void, E | ConfigError, R | Scope.Scope>
  /**
   * Checks the positions of all added toolsets, and logs the tools that are left out; an agent does when it is built.
   */
  readonly settle: Effect.Effect<void, ConfigError>
  readonly snapshot: (selection: Selection) => Effect.Effect<Snapshot>
  /** The registered toolsets and their tools, for display. */
  readonly list: Effect.Effect<ReadonlyArray<{ readonly toolset: string; readonly tools: ReadonlyArray<BoundTool> }>>
}

/** Errors of building a toolset. */
export type ErrorOf<Set> = Set extends Toolset<infer E, unknown> ? E : never

/** Requirements of building a toolset. */
export type NeedsOf<Set> = Set extends Toolset<unknown, infer R> ? R : never

/** A list of toolsets, each typed with the union of all their errors and requirements. */
export type ListOf<Sets extends ReadonlyArray<Any>> = TupleLike<Toolset<ErrorOf<Sets[number]>, NeedsOf<Sets[number]>>>

type Tools = ReadonlyMap<string, BoundTool>

const selectTools = (sets: ReadonlyArray<ReadonlyArray<BoundTool>>, selection: Selection): Tools => {
  const tools = new Map<string, BoundTool>()
  for (const set of sets) {
    for (const bound of set) {
      const { name } = bound.tool
      const isOffered = selection.toolset?.(bound.toolset) !== false && selection.tool?.(name) !== false
      if (isOffered && !tools.has(name)) tools.set(name, bound)
    }
  }
  return tools
}

/** Returns the refusals for the tools that a selection excludes. */
const explainWithheld = (
  sets: ReadonlyArray<ReadonlyArray<BoundTool>>,
  selection: Selection,
  tools: Tools
): Snapshot["withheld"] =>
  selection.toolset === undefined && selection.tool === undefined
    ? () => undefined
    : (name) =>
        tools.has(name) || !sets.some((set) => set.some(({ tool }) => tool.name === name))
          ? undefined
          : (selection.refusal?.(name) ??
            `'${name}' is not available in this session. Available tools: ` +
              `${Array.from(tools.keys()).toSorted().join(", ") || "none"}`)

/** Tools of a selection; `missing` contains the tools that are currently unavailable. */
interface ChosenTools {
  readonly tools: Tools
  readonly watched: ReadonlyArray<string>
  readonly missing: string
  readonly snapshot: Snapshot
}

const makeSnapshot = (all: Tools, missing: ReadonlyArray<string>, withheld: Snapshot["withheld"]): Snapshot => {
  const tools = missing.length === 0 ? all : new Map(Array.from(all).filter(([name]) => !missing.includes(name)))
  return {
    definitions: Array.from(tools.values(), (bound) => bound.definition),
    get: (name) => tools.get(name),
    names: Array.from(tools.keys()),
    withheld
  }
}

/** The tools of a runtime, in the order in which they were registered. */
export class ToolRegistry extends Context.Service<ToolRegistry, Service>()("hermes-effect/tool/ToolRegistry") {}

const isAnnotated = ({
  facts: { commandArguments, destructive, idempotent, inputArguments, interactive, pathArguments, readonly }
}: BoundTool): boolean =>
  readonly !== undefined ||
  destructive !== undefined ||
  idempotent !== undefined ||
  interactive ||
  pathArguments.length + commandArguments.length + inputArguments.length > 0

/**
 * Logs the names of tools without annotations. Their calls may be slower than necessary but do not fail because of it.
 */
const reportUnannotated = Effect.fnUntraced(function* (tools: ReadonlyArray<BoundTool>) {
  const names = tools.flatMap((bound) => (isAnnotated(bound) ? [] : [bound.tool.name]))
  if (names.length === 0) return
  yield* Effect.logDebug(
    `Without annotations: ${names.join(", ")}. Calls of these tools run one after another, and so do all calls ` +
      "of a message beside them. State Tool.Readonly of each, true or false (the field `readonly` of a plain " +
      "tool), or Annotations.PathArguments where it works on files."
  )
})

/** Logs the tools of a toolset whose calls run one after another. */
const reportSerialTools = (toolset: string, tools: ReadonlyArray<BoundTool>): Effect.Effect<void> => {
  const alone = tools.flatMap(({ facts, tool }) =>
    facts.readonly === undefined && facts.pathArguments.length === 0 ? [tool.name] : []
  )
  return alone.length === 0
    ? Effect.void
    : Effect.logDebug(
        `toolset "${toolset}": calls of ${alone.join(", ")} run one after another, and so do all calls of ` +
          "a message beside them; annotate tools that only read with Tool.Readonly, or name their paths with " +
          "Annotations.PathArguments"
      )
}

/** A toolset that is ready to be used. */
interface BoundToolset {
  readonly name: string
  readonly tools: ReadonlyArray<BoundTool>
}

const kind: OrderedList.ListKind<BoundToolset> = {
  path: "ToolRegistry.layerAdd",
  noun: "toolset",
  getName: ({ name }) => name
}

const formatTaken = (tool: string, toolset: string): string =>
  `tool "${tool}" of toolset "${toolset}" is left out: another toolset has that name already`

/** Toolsets without the tools whose names a toolset before them has, and the names of those tools. */
const omitTakenTools = (sets: ReadonlyArray<BoundToolset>) => {
  const names = new Set<string>()
  const taken: Array<readonly [tool: string, toolset: string]> = []
  const kept = sets.map(({ name, tools }) => {
    const isTaken = ({ tool }: BoundTool): boolean => names.has(tool.name)
    taken.push(...tools.filter(isTaken).map(({ tool }) => [tool.name, name] as const))
    const own = tools.some(isTaken) ? tools.filter((tool) => !isTaken(tool)) : tools
    for (const { tool } of own) names.add(tool.name)
    return own
  })
  return { kept, taken }
}

/**
 * Names of the tools and toolsets to which the runs of the current fiber are limited, besides their selections;
 * `undefined` if nothing limits them. Toolsets of callers are exempt, because a caller carries their tools out.
 */
export const AllowedTools = Context.Reference<ReadonlyArray<string> | undefined>("hermes-effect/tools/AllowedTools", {
  defaultValue: () => undefined
})

/** Beginning of the names of toolsets whose tools a caller carries out. */
export const callerPrefix = "client:"

/** Narrows selections to a list of tools and toolsets. The same selection and list return the same selection. */
const makeNarrower = (findToolset: (tool: string) => string | undefined) => {
  const narrowed = new WeakMap<ReadonlyArray<string>, WeakMap<Selection, Selection>>()
  return (selection: Selection, allowed: ReadonlyArray<string>): Selection => {
    const known = narrowed.get(allowed) ?? new WeakMap<Selection, Selection>()
    narrowed.set(allowed, known)
    const found = known.get(selection)
    if (found !== undefined) return found
    const tool = (name: string): boolean => {
      if (selection.tool?.(name) === false) return false
      const toolset = findToolset(name)
      if (toolset === undefined || toolset.startsWith(callerPrefix)) return true
      return allowed.includes(name) || allowed.includes(toolset)
    }
    const made: Selection = { ...selection, tool }
    known.set(selection, made)
    return made
  }
}

/** Creates an empty registry. */
export const make: Effect.Effect<Service> = Effect.sync(() => {
  let overrides: ReadonlyArray<ReadonlyArray<BoundTool>> = []
  let sets: ReadonlyArray<ReadonlyArray<BoundTool>> = []
  let chosen = new WeakMap<Selection, ChosenTools>()
  const watches = new WeakMap<BoundTool, AvailabilityWatch>()
  const toolsets = OrderedList.make(kind, (entries) => {
    sets = [...overrides, ...omitTakenTools(entries).kept]
    chosen = new WeakMap()
  })
  const replaceOverrides = (next: typeof overrides): void => {
    overrides = next
    sets = [...overrides, ...omitTakenTools(toolsets.entries()).kept]
    chosen = new WeakMap()
  }

  const chooseTools = (selection: Selection): ChosenTools => {
    const known = chosen.get(selection)
    if (known !== undefined) return known
    const tools = selectTools(sets, selection)
    const watched = Array.from(tools).flatMap(([name, { facts }]) => (facts.available === undefined ? [] : [name]))
    const made: ChosenTools = {
      tools,
      watched,
      missing: "",
      snapshot: makeSnapshot(tools, [], explainWithheld(sets, selection, tools))
    }
    chosen.set(selection, made)
    return made
  }

  const narrowSelection = makeNarrower((name) => sets.flat().find(({ tool }) => tool.name === name)?.toolset)

  const isMissing = (tools: Tools, name: string): Effect.Effect<boolean> => {
    const bound = tools.get(name)
    if (bound?.facts.available === undefined) return Effect.succeed(false)
    const watch = watches.get(bound) ?? watchAvailability(name, bound.facts.available)
    watches.set(bound, watch)
    return Effect.map(watch, (isAvailable) => !isAvailable)
  }

  const withoutMissing = Effect.fnUntraced(function* (
    selection: Selection,
    { missing: before, snapshot, tools, watched }: ChosenTools
  ) {
    const missing = yield* Effect.filter(watched, (name) => isMissing(tools, name), { concurrency: "unbounded" })
    const now = missing.join(" ")
    if (now === before) return snapshot
    const made = { tools, watched, missing: now, snapshot: makeSnapshot(tools, missing, snapshot.withheld) }
    // Tools registered in the meantime belong to the next snapshot.
    if (chosen.get(selection)?.tools === tools) chosen.set(selection, made)
    return made.snapshot
  })

  const register: Service["register"] = Effect.fnUntraced(function* (toolset, zone = "last") {
    const bound = yield* toolset.bind
    const taken = bound.filter((tool) => sets.some((set) => set.some((other) => other.tool.name === tool.tool.name)))
    for (const { tool } of taken) yield* Effect.logWarning(formatTaken(tool.name, toolset.name))
    const tools = bound.filter((tool) => !taken.includes(tool))
    yield* reportSerialTools(toolset.name, tools)
    yield* toolsets.append({ name: toolset.name, tools }, zone)
  })

  const override: Service["override"] = Effect.fnUntraced(function* (toolset) {
    const bound = yield* toolset.bind
    yield* Effect.acquireRelease(
      Effect.sync(() => replaceOverrides([bound, ...overrides])),
      () => Effect.sync(() => replaceOverrides(overrides.filter((set) => set !== bound)))
    )
  })

  const addToolsets: Service["add"] = Effect.fnUntraced(function* (added, position) {
    const bound: Array<BoundToolset> = []
    for (const { bind, name } of added) {
      const tools = yield* bind
      yield* reportSerialTools(name, tools)
      bound.push({ name, tools })
    }
    yield* reportUnannotated(bound.flatMap(({ tools }) => tools))
    yield* toolsets.add(bound, position)
  })

  const settle = Effect.suspend(() =>
    Effect.andThen(
      toolsets.settle,
      Effect.forEach(
        omitTakenTools(toolsets.entries()).taken,
        ([tool, toolset]) => Effect.logWarning(formatTaken(tool, toolset)),
        { discard: true }
      )
    )
  )

  return {
    register,
    override,
    add: addToolsets,
    settle,
    snapshot: (selection) =>
      Effect.withFiber((fiber) => {
        const allowed = fiber.getRef(AllowedTools)
        const known = chooseTools(allowed === undefined ? selection : narrowSelection(selection, allowed))
        return known.watched.length === 0 ? Effect.succeed(known.snapshot) : withoutMissing(selection, known)
      }),
    list: Effect.sync(() =>
      sets.flatMap((tools) => (tools[0] === undefined ? [] : [{ toolset: tools[0].toolset, tools }]))
    )
  }
})

/** Provides a registry of these toolsets, in this order. */
export const layer = <const Sets extends ReadonlyArray<Any>>(
  toolsets: Sets & ListOf<Sets>
): Layer.Layer<ToolRegistry, ErrorOf<Sets[number]>, RunContext.AtBuild<NeedsOf<Sets[number]>>> =>
  layerFromList<ErrorOf<Sets[number]>, NeedsOf<Sets[number]>>(toolsets)

/** Like {@link layer}, for a list whose members have one common type. */
export const layerFromList = <E, R>(
  toolsets: ReadonlyArray<Toolset<E, R>>
): Layer.Layer<ToolRegistry, E, RunContext.AtBuild<R>> =>
  Layer.effect(
    ToolRegistry,
    Effect.gen(function* () {
      const registry = yield* make
      for (const toolset of toolsets) yield* RunContext.deferKeys(registry.register(toolset, "listed"))
      yield* reportUnannotated((yield* registry.list).flatMap(({ tools }) => tools))
      return registry
    })
  )

/** No tools. Each use creates a separate registry, to which toolsets can be added. */
export const layerNone: Layer.Layer<ToolRegistry> = Layer.fresh(Layer.effect(ToolRegistry, make))

/**
 * Adds toolsets to the registry in the context. Of tools with one name the outermost is used; `before` and `after` name
 * a toolset.
 */
export const layerAdd = <const Sets extends ReadonlyArray<Any>>(
  toolsets: Sets & ListOf<Sets>,
  position: OrderedList.Position
): Layer.Layer<never, ErrorOf<Sets[number]> | ConfigError, ToolRegistry | RunContext.AtBuild<NeedsOf<Sets[number]>>> =>
  Layer.effectDiscard(
    Effect.gen(function* () {
      const list: ListOf<Sets> = toolsets
      yield* RunContext.deferKeys((yield* ToolRegistry).add(list, position))
    })
  )
