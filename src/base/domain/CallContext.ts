/** Context of the tool call that the current fiber executes: its directory, its workspace and its conversation. */
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

/** Directory to which the tools of a tenant are limited. */
export interface Workspace {
  /** Absolute path without links. */
  readonly directory: string
  /** Directories that the commands of the tenant do not see, of other tenants and of the runtime. */
  readonly hidden: ReadonlyArray<string>
}

/** Workspace of the tenant for which the fiber works; `undefined` if tools work in the directory of the runtime. */
export const CurrentWorkspace = Context.Reference<Workspace | undefined>("hermes-effect/environment/CurrentWorkspace", {
  defaultValue: () => undefined
})

/** Tests whether an absolute, normalized path is in a workspace. */
export const isInWorkspace = ({ directory }: Workspace, path: string): boolean =>
  path === directory || path.startsWith(`${directory}/`)
