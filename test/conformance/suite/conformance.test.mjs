import { runConformanceTests } from "./suite.gen.mjs"

runConformanceTests({ baseUrl: process.env.RUNNEL_CONFORMANCE_URL })
