/** Settings of containers. */
import type * as Duration from "effect/Duration"
import type * as Redacted from "effect/Redacted"

/** Container settings of an environment. Paths are absolute. */
export interface Options {
  /** Program of the container engine. Default: `docker`, or `podman` if `docker` is not in the search path. */
  readonly binary?: string | undefined
  readonly image: string
  /** Returns the image for a working tree, which replaces `image`. `undefined` for a tree without a separate image. */
  readonly findImage?: ((tree: string) => string | undefined) | undefined
  /** Access of commands to the working tree. With `read-only`, commands cannot write it. */
  readonly policy: "read-only" | "workspace-write"
  /**
   * Source of the working tree: `mount` mounts the tree on this machine, `copy` copies it. The copy is removed with the
   * container.
   */
  readonly workspace: "mount" | "copy"
  /** Network of the containers: `none`, or `all` for the network that the engine provides. */
  readonly network: "none" | "all"
  /** Resource limits. Absent limits default to the engine's. Memory and disk are in megabytes. */
  readonly limits: {
    readonly cpus?: number | undefined
    readonly memory?: number | undefined
    readonly disk?: number | undefined
    readonly processes: number
  }
  /** Further mounts: `source:target` or `source:target:ro`. A source without a slash is a volume of the engine. */
  readonly volumes: ReadonlyArray<string>
  /**
   * Directories on this machine that can be read at the same path in the container. Directories that do not exist are
   * skipped.
   */
  readonly readable: ReadonlyArray<string>
  /** Environment variables of every command. */
  readonly variables: Readonly<Record<string, string | Redacted.Redacted<string>>>
  /** Names of this program's variables that commands receive. */
  readonly forwarded: ReadonlyArray<string>
  /** User as which commands run. */
  readonly user: "caller" | "image"
  /** True if the home directory in the container is a volume that later sessions of the tree share. */
  readonly isPersistent: boolean
  /** Period without use after which a container is removed. */
  readonly lifetime: Duration.Duration
  /** The user's home directory. A tree that contains it is not mounted. */
  readonly home: string | undefined
  readonly hidesEnvFiles: boolean
  /** Further arguments of `run`. */
  readonly extraArguments: ReadonlyArray<string>
}

/** Home directory in a container. */
export const containerHome = "/home/hermes"
