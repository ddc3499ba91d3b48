/**
 * `hermes doctor`: says whether everything is there that a run needs.
 */
import * as Effect from "effect/Effect"
import * as Command from "effect/cli/Command"
import { hermes, perform } from "./Hermes.ts"

export const doctorCommand = Command.make(
  "doctor",
  {},
  () => Effect.flatMap(hermes, (shared) => perform(shared, () => import("./DoctorActions.ts"), ({ doctor }) => doctor(shared)))
).pipe(Command.withDescription("Check the installation and say how to fix problems"))
