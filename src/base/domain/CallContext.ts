/** Context of the tool call that the current fiber executes: its directory and its conversation. */
import * as Context from "effect/Context"

/**
 * Absolute directory of the current tool call. An environment that restricts writes permits them in the working tree of
 * this directory. If `undefined`, only temporary files may be written.
 */
export const CallDirectory = Context.Reference<string | undefined>("hermes-effect/environment/CallDirectory", {
  defaultValue: () => undefined
})

/**
 * Name of the conversation of the current tool call, shared with its child agents. An environment that starts machines
 * uses one machine for each conversation.
 */
export const CallConversation = Context.Reference<string | undefined>("hermes-effect/environment/CallConversation", {
  defaultValue: () => undefined
})
