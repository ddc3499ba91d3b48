/**
 * The paces of the hooks of a runtime: one for each hook, one for the inline hooks of an owner, and one for the queue
 * of an owner whose observers the run does not await.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as DeliveryPace from "./DeliveryPace.ts"
import type * as Dispatch from "./Dispatch.ts"
import { defaultCapacity, type Hook } from "./Hook.ts"

/** The pace of a hook, and the queue of its owner. */
interface HookPaces {
  readonly pace: DeliveryPace.DeliveryPace
  /** Pace of the owner's queue, if its owner has one. */
  readonly before: DeliveryPace.DeliveryPace | undefined
}

/** Functions that determine the paces of hooks. */
interface DeliveryPaces {
  /** Returns the paces of a hook, and starts the queues that it needs. */
  readonly resolvePaces: (hook: Hook<unknown>) => Effect.Effect<HookPaces, never, Scope.Scope>
  /** Waits for the queues of owners, or returns `undefined` if no queue has to be awaited. */
  readonly findPending: () => Effect.Effect<void> | undefined
}

/** Creates the paces of a runtime without hooks. */
export const makePaces = (startQueue: ReturnType<typeof Dispatch.make>["startQueue"]): DeliveryPaces => {
  const paces = new WeakMap<object, DeliveryPace.DeliveryPace>()
  const queues = new WeakMap<object, DeliveryPace.DeliveryPace>()
  const openQueues = new Set<DeliveryPace.DeliveryPace>()

  /** Returns the pace of an owner's observers. Its queue lives as long as the owner's first hook. */
  const resolveQueue = Effect.fnUntraced(function* ({ key, label }: NonNullable<Hook["owner"]>) {
    const known = queues.get(key)
    if (known !== undefined) return known
    const pace = DeliveryPace.makePace(label, yield* Effect.scope, true)
    queues.set(key, pace)
    openQueues.add(pace)
    yield* Effect.addFinalizer(() => Effect.sync(() => openQueues.delete(pace)))
    yield* startQueue(pace, defaultCapacity)
    return pace
  })

  const resolvePaces = Effect.fnUntraced(function* ({ delivery, label, owner }: Hook<unknown>) {
    const before = owner?.queuesObservers === true ? yield* resolveQueue(owner) : undefined
    if (before !== undefined && delivery.mode === "default") return { pace: before, before: undefined }
    const known = owner === undefined || delivery.mode === "queued" ? undefined : paces.get(owner.key)
    if (known !== undefined) return { pace: known, before }
    const name = delivery.mode === "queued" ? label : (owner?.label ?? label)
    const pace = DeliveryPace.makePace(name, yield* Effect.scope, false)
    if (delivery.mode === "queued") yield* startQueue(pace, delivery.capacity)
    // Inline hooks of one owner share a pace, so that queued events stay in order.
    else if (owner !== undefined) paces.set(owner.key, pace)
    return { pace, before }
  })

  const findPending = (): Effect.Effect<void> | undefined => {
    if (openQueues.size === 0) return undefined
    const behind = Array.from(openQueues).filter(DeliveryPace.isAwaitable)
    return behind.length === 0
      ? undefined
      : Effect.forEach(behind, DeliveryPace.awaitQueue, { concurrency: "unbounded", discard: true })
  }

  return { resolvePaces, findPending }
}
