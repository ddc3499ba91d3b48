/** The tool that looks at pictures, and the models of side tasks that it asks. */
export * as SideModel from "../../../tools/builtin/SideModel.ts"
export * as Vision from "../../../tools/builtin/Vision.ts"
