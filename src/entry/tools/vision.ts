/** The tool that looks at pictures, and the models of side tasks that it asks. */
export * as SideModel from "../../tool/builtin/SideModel.ts"
export * as Vision from "../../tool/builtin/Vision.ts"
