/**
 * The commands that plugins bring: their names as users type them, and which of several counts.
 *
 * Source: `hermes-contract.md` §3.5 (`register_command`, `register_cli_command`).
 */

/** Fields of commands of either sort. */
interface CommandFields {
  readonly name: string
  readonly description?: string | undefined
  readonly argsHint?: string | undefined
}

/** The usable commands, and warnings about the others. */
interface AcceptedCommands<C> {
  readonly commands: ReadonlyArray<C>
  readonly warnings: ReadonlyArray<string>
}

/** `/MyCmd ` as `mycmd`. */
export const normalizeName = (given: string): string =>
  given.trim().replace(/^\/+/, "").trim().toLowerCase().replaceAll(/\s+/g, "-")

/** Help of a command that brings none. */
const defaultDescription = "Plugin command"

/** The commands of one plugin under the names that they get; `reserved` are the names of the program's own. */
export const acceptCommands = <C extends CommandFields>(
  given: ReadonlyArray<C>,
  reserved: ReadonlyArray<string>
): AcceptedCommands<C> => {
  const warnings: Array<string> = []
  const commands = given.flatMap((command) => {
    const name = normalizeName(command.name)
    if (name === "") {
      warnings.push("a command without a name is ignored")
      return []
    }
    if (reserved.includes(name)) {
      warnings.push(`the command "${name}" is ignored: the program has one of that name`)
      return []
    }
    return [
      {
        ...command,
        name,
        description: command.description?.trim() || defaultDescription,
        argsHint: command.argsHint?.trim() || undefined
      }
    ]
  })
  return { commands, warnings }
}

/** Of several commands with one name, the last: by name, in order. */
export const dropDuplicates = <C extends CommandFields>(commands: ReadonlyArray<C>): ReadonlyArray<C> =>
  Array.from(new Map(commands.map((command) => [command.name, command])).values()).toSorted((a, b) =>
    a.name < b.name ? -1 : 1
  )
