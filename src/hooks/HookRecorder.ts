/** A double of hooks that records events. */
import { fromPlain, type Hook } from "./Hook.ts"
import { type HookName, names } from "./Payloads.ts"

/** A recorded call of a hook. */
export interface RecordedHook {
  readonly name: HookName
  readonly payload: Readonly<Record<string, unknown>>
}

/** Hooks of a runtime that record the events they receive. */
export interface HookRecorder {
  /** Hooks for the `hooks` option of a runtime. */
  readonly hooks: ReadonlyArray<Hook>
  readonly told: () => ReadonlyArray<RecordedHook>
  /** Returns the payloads of one hook. */
  readonly payloads: (name: HookName) => ReadonlyArray<RecordedHook["payload"]>
}

/** Creates a recorder of the named hooks, by default of all hooks. The recorded hooks return no answer. */
export const makeHookRecorder = (only: ReadonlyArray<HookName> = names): HookRecorder => {
  const seen: Array<RecordedHook> = []
  const hooks = only.map((name) =>
    fromPlain(name, (event): void => void seen.push({ name, payload: { ...event } }), { label: `recorder of ${name}` })
  )
  return {
    hooks,
    told: () => [...seen],
    payloads: (name) => seen.filter((one) => one.name === name).map(({ payload }) => payload)
  }
}
