/**
 * Identity of the call that a fiber serves: its directory and its conversation.
 */
import * as Context from "effect/Context"

/**
 * The directory of the call that is served, absolute: an environment that confines writes lets its working tree be
 * written. Without one nothing but temporary files is written.
 */
export const CallDirectory = Context.Reference<string | undefined>("hermes-effect/environment/CallDirectory", {
  defaultValue: () => undefined
})

/**
 * Name of the conversation that is served, with all its child agents: an environment of machines that it starts has one
 * for each.
 */
export const CallConversation = Context.Reference<string | undefined>("hermes-effect/environment/CallConversation", {
  defaultValue: () => undefined
})
