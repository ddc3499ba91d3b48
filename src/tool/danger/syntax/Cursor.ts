/**
 * A place in a text that is read as a shell script: how far it came, how deep it is, and what is wrong, if anything is.
 *
 * @since 0.1.0
 */
import type { Simple } from "../Tree.ts"

/** How deep substitutions, groups and expansions nest. */
export const maxDepth = 40

/** Reads commands: to the end of the text, or, where they are enclosed, to the parenthesis that closes them. */
export type ReadCommands = (cursor: Cursor, enclosed: boolean) => ReadonlyArray<Simple>

/** See the module. */
export class Cursor {
  at = 0
  fault: string | undefined
  readonly text: string
  depth: number
  readonly commands: ReadCommands

  constructor(text: string, depth: number, commands: ReadCommands) {
    this.text = text
    this.depth = depth
    this.commands = commands
  }

  /** A cursor on another text at the same depth. */
  on(text: string): Cursor {
    return new Cursor(text, this.depth, this.commands)
  }

  /** Nothing more is read. The first fault counts. */
  fail(fault: string): void {
    this.fault ??= fault
    this.at = this.text.length
  }

  /** Takes over what went wrong inside. */
  inherit({ fault }: { readonly fault: string | undefined }): void {
    if (fault !== undefined) this.fault ??= fault
  }

  /** Runs one level deeper. */
  nested<A>(read: () => A, otherwise: A): A {
    if (this.depth >= maxDepth) {
      this.fail("it nests too deeply")
      return otherwise
    }
    this.depth++
    const out = read()
    this.depth--
    return out
  }
}
