/**
 * Steps that contain steps: parallel branches, lists, conditions and loops.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { computeValue, runStored, type StepState, toPath } from "./StepExecution.ts"
import {
  appendNode,
  type Block,
  type Body,
  type Extend,
  makeNode,
  makeStart,
  runInner,
  type Start,
  type StepNode,
  type StepSequence
} from "./StepNodes.ts"
import { StepLimitReached } from "./WorkflowError.ts"

/** Type of the value of a body. */
type ValueIn<Built> = Built extends (start: never) => StepSequence<infer A, unknown, unknown> ? A : never
type ErrorIn<Built> = Built extends (start: never) => StepSequence<unknown, infer E, unknown> ? E : never
type NeedsIn<Built> = Built extends (start: never) => StepSequence<unknown, unknown, infer R> ? R : never

/** Bodies by name, over one state. */
type Bodies<State extends object> = Readonly<
  Record<string, (start: Start<State>) => StepSequence<unknown, unknown, unknown>>
>

/** Type of the values of bodies, by name. */
type ValuesIn<Built> = { readonly [Key in keyof Built]: ValueIn<Built[Key]> }

/** Builds bodies, and restores the types that the record of them lost. */
const buildBodies = <State extends object, Built extends Bodies<State>>(
  bodies: Built
): ReadonlyArray<{
  readonly label: string
  readonly nodes: ReadonlyArray<StepNode<ErrorIn<Built[keyof Built]>, NeedsIn<Built[keyof Built]>>>
}> =>
  Object.entries(bodies).map(([label, body]) => ({
    label,
    // The nodes have the failures and the needs that the type of their body states.
    nodes: body(makeStart<State>()).nodes as ReadonlyArray<
      StepNode<ErrorIn<Built[keyof Built]>, NeedsIn<Built[keyof Built]>>
    >
  }))

/** Limit of steps that run at the same time. */
export interface Concurrency {
  /** Maximum number of branches or items at the same time. Unlimited by default. */
  readonly concurrency?: number | undefined
}

/**
 * Adds branches that run at the same time. The value has the value of each branch by its name. The first failure of a
 * branch interrupts the others.
 */
export const addBranches =
  <const Name extends string, State extends object, Built extends Bodies<NoInfer<State>>>(
    name: Exclude<Name, keyof State>,
    branches: Built,
    { concurrency }: Concurrency = {}
  ) =>
  <Last, E, R>(
    self: Block<State, Last, E, R>
  ): Block<
    Extend<State, Name, ValuesIn<Built>>,
    ValuesIn<Built>,
    E | ErrorIn<Built[keyof Built]>,
    R | NeedsIn<Built[keyof Built]>
  > => {
    const blocks = buildBodies<State, Built>(branches)
    return appendNode<
      Extend<State, Name, ValuesIn<Built>>,
      ValuesIn<Built>,
      E | ErrorIn<Built[keyof Built]>,
      R | NeedsIn<Built[keyof Built]>
    >(
      self,
      makeNode<ErrorIn<Built[keyof Built]>, NeedsIn<Built[keyof Built]>>({
        name,
        kind: "all",
        blocks,
        run: (state, place) =>
          Effect.map(
            Effect.forEach(
              blocks,
              ({ label, nodes }) => Effect.map(runInner(nodes, state, place, name), (value) => [label, value] as const),
              { concurrency: concurrency ?? "unbounded" }
            ),
            (values) => Object.fromEntries(values)
          )
      })
    )
  }

/**
 * Adds steps that run once for each item of a list. They see it as `item`, and its position as `index`. The value is
 * the list of their values, in the order of the items. The first failure interrupts the others.
 */
export const addForEach =
  <const Name extends string, State extends object, Item, A, E = never, R = never>(
    name: Exclude<Name, keyof State>,
    {
      concurrency,
      each,
      items
    }: Concurrency & {
      readonly items: (state: NoInfer<State>) => ReadonlyArray<Item>
      readonly each: Body<NoInfer<State> & { readonly item: NoInfer<Item>; readonly index: number }, A, E, R>
    }
  ) =>
  <Last, E1, R1>(
    self: Block<State, Last, E1, R1>
  ): Block<Extend<State, Name, ReadonlyArray<A>>, ReadonlyArray<A>, E | E1, R | R1> => {
    const { nodes } = each(makeStart())
    return appendNode<Extend<State, Name, ReadonlyArray<A>>, ReadonlyArray<A>, E | E1, R | R1>(
      self,
      makeNode<E, R>({
        name,
        kind: "forEach",
        blocks: [{ label: "each", nodes }],
        run: (state, place) =>
          Effect.flatMap(
            // The state has the values of the earlier steps, with the types of the block.
            computeValue(toPath(place, name), () => items(state as StepState as State)),
            (list) =>
              Effect.forEach(
                list,
                (item, index) => runInner(nodes, { ...state, item, index }, place, name, `[${index}]`),
                { concurrency: concurrency ?? "unbounded" }
              )
          )
      })
    )
  }

/** Adds a choice between named cases. The choice is stored; the value is the value of the chosen case. */
export const addChoice =
  <const Name extends string, State extends object, Built extends Bodies<NoInfer<State>>>(
    name: Exclude<Name, keyof State>,
    { cases, on }: { readonly cases: Built; readonly on: (state: NoInfer<State>) => NoInfer<keyof Built & string> }
  ) =>
  <Last, E, R>(
    self: Block<State, Last, E, R>
  ): Block<
    Extend<State, Name, ValueIn<Built[keyof Built]>>,
    ValueIn<Built[keyof Built]>,
    E | ErrorIn<Built[keyof Built]>,
    R | NeedsIn<Built[keyof Built]>
  > => {
    const blocks = buildBodies<State, Built>(cases)
    return appendNode<
      Extend<State, Name, ValueIn<Built[keyof Built]>>,
      ValueIn<Built[keyof Built]>,
      E | ErrorIn<Built[keyof Built]>,
      R | NeedsIn<Built[keyof Built]>
    >(
      self,
      makeNode<ErrorIn<Built[keyof Built]>, NeedsIn<Built[keyof Built]>>({
        name,
        kind: "branch",
        blocks,
        run: (state, place) =>
          Effect.gen(function* () {
            const chosen = yield* runStored(place, {
              name,
              kind: "branch",
              output: Schema.String,
              // The state has the values of the earlier steps, with the types of the block.
              execute: () => Effect.sync(() => on(state as StepState as State)),
              describe: (label) => label
            })
            const block = blocks.find(({ label }) => label === chosen)
            return block === undefined ? undefined : yield* runInner(block.nodes, state, place, name)
          })
      })
    )
  }

/** Adds steps that run if a condition holds. Otherwise the value is the value of `otherwise`, or `undefined`. */
export const addCondition =
  <const Name extends string, State extends object, A, E = never, R = never, B = undefined, E2 = never, R2 = never>(
    name: Exclude<Name, keyof State>,
    options: {
      readonly if: (state: NoInfer<State>) => boolean
      readonly then: Body<NoInfer<State>, A, E, R>
      readonly otherwise?: Body<NoInfer<State>, B, E2, R2> | undefined
    }
  ) =>
  <Last, E1, R1>(
    self: Block<State, Last, E1, R1>
  ): Block<Extend<State, Name, A | B>, A | B, E | E1 | E2, R | R1 | R2> => {
    const yes = options.then(makeStart()).nodes
    const no = options.otherwise?.(makeStart()).nodes ?? []
    return appendNode<Extend<State, Name, A | B>, A | B, E | E1 | E2, R | R1 | R2>(
      self,
      makeNode<E | E2, R | R2>({
        name,
        kind: "branch",
        blocks: [
          { label: "yes", nodes: yes },
          { label: "no", nodes: no }
        ],
        run: (state, place) =>
          Effect.flatMap(
            runStored(place, {
              name,
              kind: "branch",
              output: Schema.Boolean,
              // The state has the values of the earlier steps, with the types of the block.
              execute: () => Effect.sync(() => options.if(state as StepState as State)),
              describe: (isTrue) => (isTrue ? "yes" : "no")
            }),
            (isTrue) => runInner<E | E2, R | R2>(isTrue ? yes : no, state, place, name)
          )
      })
    )
  }

/**
 * Adds steps that repeat until a condition holds. They see the value of the last round as `current`, and the number of
 * this round, counted from 1, as `round`. The value is the value of the last round. Fails with `StepLimitReached` after
 * `limit` rounds.
 */
export const addLoop =
  <const Name extends string, State extends object, A, E = never, R = never>(
    name: Exclude<Name, keyof State>,
    {
      body,
      initial,
      limit,
      until
    }: {
      readonly initial: (state: NoInfer<State>) => A
      readonly body: Body<NoInfer<State> & { readonly current: NoInfer<A>; readonly round: number }, NoInfer<A>, E, R>
      readonly until: (value: NoInfer<A>, round: number) => boolean
      readonly limit: number
    }
  ) =>
  <Last, E1, R1>(self: Block<State, Last, E1, R1>): Block<Extend<State, Name, A>, A, E | E1, R | R1> => {
    const { nodes } = body(makeStart())
    return appendNode<Extend<State, Name, A>, A, E | E1, R | R1>(
      self,
      makeNode<E, R>({
        name,
        kind: "loop",
        detail: `at most ${limit} rounds`,
        blocks: [{ label: "round", nodes }],
        run: (state, place) =>
          Effect.gen(function* () {
            const path = toPath(place, name)
            // The state has the values of the earlier steps, with the types of the block.
            let current: unknown = yield* computeValue(path, () => initial(state as StepState as State))
            for (let round = 1; round <= limit; round++) {
              const value = yield* runInner(nodes, { ...state, current, round }, place, name, `#${round}`)
              current = value
              const isOver = yield* runStored(place, {
                name: `${name} over ${round}`,
                kind: "loop",
                isInner: true,
                output: Schema.Boolean,
                // The body returns values of the type that the loop states.
                execute: () => Effect.sync(() => until(value as A, round))
              })
              if (isOver) return current
            }
            return yield* new StepLimitReached({
              step: path,
              limit,
              message: `step ${path} has run ${limit} rounds without an end: raise its limit, or relax its condition`
            })
          })
      })
    )
  }
