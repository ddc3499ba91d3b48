import * as Context from "effect/Context"

/** Variables by name. */
export type Variables = Readonly<Record<string, string | undefined>>

/** The variables of this process; a test gives its own. */
export const ProcessVariables = Context.Reference<Variables>("hermes-effect/config/ProcessVariables", {
  defaultValue: () => process.env
})
