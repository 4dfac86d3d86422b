var X=globalThis,Z=X.ShadowRoot&&(X.ShadyCSS===void 0||X.ShadyCSS.nativeShadow)&&"adoptedStyleSheets"in Document.prototype&&"replace"in CSSStyleSheet.prototype,Ot=Symbol(),Ct=new WeakMap,Q=class{constructor(t,e,s){if(this._$cssResult$=!0,s!==Ot)throw Error("CSSResult is not constructable. Use `unsafeCSS` or `css` instead.");this.cssText=t,this.t=e}get styleSheet(){let t=this.o,e=this.t;if(Z&&t===void 0){let s=e!==void 0&&e.length===1;s&&(t=Ct.get(e)),t===void 0&&((this.o=t=new CSSStyleSheet).replaceSync(this.cssText),s&&Ct.set(e,t))}return t}toString(){return this.cssText}},Mt=i=>new Q(typeof i=="string"?i:i+"",void 0,Ot);var Ut=(i,t)=>{if(Z)i.adoptedStyleSheets=t.map(e=>e instanceof CSSStyleSheet?e:e.styleSheet);else for(let e of t){let s=document.createElement("style"),n=X.litNonce;n!==void 0&&s.setAttribute("nonce",n),s.textContent=e.cssText,i.appendChild(s)}},ut=Z?i=>i:i=>i instanceof CSSStyleSheet?(t=>{let e="";for(let s of t.cssRules)e+=s.cssText;return Mt(e)})(i):i;var{is:Se,defineProperty:Ae,getOwnPropertyDescriptor:Ee,getOwnPropertyNames:xe,getOwnPropertySymbols:ke,getPrototypeOf:Te}=Object,tt=globalThis,Lt=tt.trustedTypes,Re=Lt?Lt.emptyScript:"",Pe=tt.reactiveElementPolyfillSupport,D=(i,t)=>i,mt={toAttribute(i,t){switch(t){case Boolean:i=i?Re:null;break;case Object:case Array:i=i==null?i:JSON.stringify(i)}return i},fromAttribute(i,t){let e=i;switch(t){case Boolean:e=i!==null;break;case Number:e=i===null?null:Number(i);break;case Object:case Array:try{e=JSON.parse(i)}catch{e=null}}return e}},qt=(i,t)=>!Se(i,t),Nt={attribute:!0,type:String,converter:mt,reflect:!1,useDefault:!1,hasChanged:qt};Symbol.metadata??=Symbol("metadata"),tt.litPropertyMetadata??=new WeakMap;var v=class extends HTMLElement{static addInitializer(t){this._$Ei(),(this.l??=[]).push(t)}static get observedAttributes(){return this.finalize(),this._$Eh&&[...this._$Eh.keys()]}static createProperty(t,e=Nt){if(e.state&&(e.attribute=!1),this._$Ei(),this.prototype.hasOwnProperty(t)&&((e=Object.create(e)).wrapped=!0),this.elementProperties.set(t,e),!e.noAccessor){let s=Symbol(),n=this.getPropertyDescriptor(t,s,e);n!==void 0&&Ae(this.prototype,t,n)}}static getPropertyDescriptor(t,e,s){let{get:n,set:r}=Ee(this.prototype,t)??{get(){return this[e]},set(o){this[e]=o}};return{get:n,set(o){let a=n?.call(this);r?.call(this,o),this.requestUpdate(t,a,s)},configurable:!0,enumerable:!0}}static getPropertyOptions(t){return this.elementProperties.get(t)??Nt}static _$Ei(){if(this.hasOwnProperty(D("elementProperties")))return;let t=Te(this);t.finalize(),t.l!==void 0&&(this.l=[...t.l]),this.elementProperties=new Map(t.elementProperties)}static finalize(){if(this.hasOwnProperty(D("finalized")))return;if(this.finalized=!0,this._$Ei(),this.hasOwnProperty(D("properties"))){let e=this.properties,s=[...xe(e),...ke(e)];for(let n of s)this.createProperty(n,e[n])}let t=this[Symbol.metadata];if(t!==null){let e=litPropertyMetadata.get(t);if(e!==void 0)for(let[s,n]of e)this.elementProperties.set(s,n)}this._$Eh=new Map;for(let[e,s]of this.elementProperties){let n=this._$Eu(e,s);n!==void 0&&this._$Eh.set(n,e)}this.elementStyles=this.finalizeStyles(this.styles)}static finalizeStyles(t){let e=[];if(Array.isArray(t)){let s=new Set(t.flat(1/0).reverse());for(let n of s)e.unshift(ut(n))}else t!==void 0&&e.push(ut(t));return e}static _$Eu(t,e){let s=e.attribute;return s===!1?void 0:typeof s=="string"?s:typeof t=="string"?t.toLowerCase():void 0}constructor(){super(),this._$Ep=void 0,this.isUpdatePending=!1,this.hasUpdated=!1,this._$Em=null,this._$Ev()}_$Ev(){this._$ES=new Promise(t=>this.enableUpdating=t),this._$AL=new Map,this._$E_(),this.requestUpdate(),this.constructor.l?.forEach(t=>t(this))}addController(t){(this._$EO??=new Set).add(t),this.renderRoot!==void 0&&this.isConnected&&t.hostConnected?.()}removeController(t){this._$EO?.delete(t)}_$E_(){let t=new Map,e=this.constructor.elementProperties;for(let s of e.keys())this.hasOwnProperty(s)&&(t.set(s,this[s]),delete this[s]);t.size>0&&(this._$Ep=t)}createRenderRoot(){let t=this.shadowRoot??this.attachShadow(this.constructor.shadowRootOptions);return Ut(t,this.constructor.elementStyles),t}connectedCallback(){this.renderRoot??=this.createRenderRoot(),this.enableUpdating(!0),this._$EO?.forEach(t=>t.hostConnected?.())}enableUpdating(t){}disconnectedCallback(){this._$EO?.forEach(t=>t.hostDisconnected?.())}attributeChangedCallback(t,e,s){this._$AK(t,s)}_$ET(t,e){let s=this.constructor.elementProperties.get(t),n=this.constructor._$Eu(t,s);if(n!==void 0&&s.reflect===!0){let r=(s.converter?.toAttribute!==void 0?s.converter:mt).toAttribute(e,s.type);this._$Em=t,r==null?this.removeAttribute(n):this.setAttribute(n,r),this._$Em=null}}_$AK(t,e){let s=this.constructor,n=s._$Eh.get(t);if(n!==void 0&&this._$Em!==n){let r=s.getPropertyOptions(n),o=typeof r.converter=="function"?{fromAttribute:r.converter}:r.converter?.fromAttribute!==void 0?r.converter:mt;this._$Em=n;let a=o.fromAttribute(e,r.type);this[n]=a??this._$Ej?.get(n)??a,this._$Em=null}}requestUpdate(t,e,s,n=!1,r){if(t!==void 0){let o=this.constructor;if(n===!1&&(r=this[t]),s??=o.getPropertyOptions(t),!((s.hasChanged??qt)(r,e)||s.useDefault&&s.reflect&&r===this._$Ej?.get(t)&&!this.hasAttribute(o._$Eu(t,s))))return;this.C(t,e,s)}this.isUpdatePending===!1&&(this._$ES=this._$EP())}C(t,e,{useDefault:s,reflect:n,wrapped:r},o){s&&!(this._$Ej??=new Map).has(t)&&(this._$Ej.set(t,o??e??this[t]),r!==!0||o!==void 0)||(this._$AL.has(t)||(this.hasUpdated||s||(e=void 0),this._$AL.set(t,e)),n===!0&&this._$Em!==t&&(this._$Eq??=new Set).add(t))}async _$EP(){this.isUpdatePending=!0;try{await this._$ES}catch(e){Promise.reject(e)}let t=this.scheduleUpdate();return t!=null&&await t,!this.isUpdatePending}scheduleUpdate(){return this.performUpdate()}performUpdate(){if(!this.isUpdatePending)return;if(!this.hasUpdated){if(this.renderRoot??=this.createRenderRoot(),this._$Ep){for(let[n,r]of this._$Ep)this[n]=r;this._$Ep=void 0}let s=this.constructor.elementProperties;if(s.size>0)for(let[n,r]of s){let{wrapped:o}=r,a=this[n];o!==!0||this._$AL.has(n)||a===void 0||this.C(n,void 0,r,a)}}let t=!1,e=this._$AL;try{t=this.shouldUpdate(e),t?(this.willUpdate(e),this._$EO?.forEach(s=>s.hostUpdate?.()),this.update(e)):this._$EM()}catch(s){throw t=!1,this._$EM(),s}t&&this._$AE(e)}willUpdate(t){}_$AE(t){this._$EO?.forEach(e=>e.hostUpdated?.()),this.hasUpdated||(this.hasUpdated=!0,this.firstUpdated(t)),this.updated(t)}_$EM(){this._$AL=new Map,this.isUpdatePending=!1}get updateComplete(){return this.getUpdateComplete()}getUpdateComplete(){return this._$ES}shouldUpdate(t){return!0}update(t){this._$Eq&&=this._$Eq.forEach(e=>this._$ET(e,this[e])),this._$EM()}updated(t){}firstUpdated(t){}};v.elementStyles=[],v.shadowRootOptions={mode:"open"},v[D("elementProperties")]=new Map,v[D("finalized")]=new Map,Pe?.({ReactiveElement:v}),(tt.reactiveElementVersions??=[]).push("2.1.2");var gt=globalThis,Ht=i=>i,et=gt.trustedTypes,Dt=et?et.createPolicy("lit-html",{createHTML:i=>i}):void 0,$t="$lit$",_=`lit$${Math.random().toFixed(9).slice(2)}$`,wt="?"+_,Ce=`<${wt}>`,R=document,j=()=>R.createComment(""),B=i=>i===null||typeof i!="object"&&typeof i!="function",yt=Array.isArray,Wt=i=>yt(i)||typeof i?.[Symbol.iterator]=="function",ft=`[ 	
\f\r]`,I=/<(?:(!--|\/[^a-zA-Z])|(\/?[a-zA-Z][^>\s]*)|(\/?$))/g,It=/-->/g,jt=/>/g,k=RegExp(`>|${ft}(?:([^\\s"'>=/]+)(${ft}*=${ft}*(?:[^ 	
\f\r"'\`<>=]|("|')|))|$)`,"g"),Bt=/'/g,Ft=/"/g,Vt=/^(?:script|style|textarea|title)$/i,bt=i=>(t,...e)=>({_$litType$:i,strings:t,values:e}),h=bt(1),ls=bt(2),hs=bt(3),$=Symbol.for("lit-noChange"),d=Symbol.for("lit-nothing"),Jt=new WeakMap,T=R.createTreeWalker(R,129);function Kt(i,t){if(!yt(i)||!i.hasOwnProperty("raw"))throw Error("invalid template strings array");return Dt!==void 0?Dt.createHTML(t):t}var zt=(i,t)=>{let e=i.length-1,s=[],n,r=t===2?"<svg>":t===3?"<math>":"",o=I;for(let a=0;a<e;a++){let l=i[a],u,f,c=-1,p=0;for(;p<l.length&&(o.lastIndex=p,f=o.exec(l),f!==null);)p=o.lastIndex,o===I?f[1]==="!--"?o=It:f[1]!==void 0?o=jt:f[2]!==void 0?(Vt.test(f[2])&&(n=RegExp("</"+f[2],"g")),o=k):f[3]!==void 0&&(o=k):o===k?f[0]===">"?(o=n??I,c=-1):f[1]===void 0?c=-2:(c=o.lastIndex-f[2].length,u=f[1],o=f[3]===void 0?k:f[3]==='"'?Ft:Bt):o===Ft||o===Bt?o=k:o===It||o===jt?o=I:(o=k,n=void 0);let m=o===k&&i[a+1].startsWith("/>")?" ":"";r+=o===I?l+Ce:c>=0?(s.push(u),l.slice(0,c)+$t+l.slice(c)+_+m):l+_+(c===-2?a:m)}return[Kt(i,r+(i[e]||"<?>")+(t===2?"</svg>":t===3?"</math>":"")),s]},F=class i{constructor({strings:t,_$litType$:e},s){let n;this.parts=[];let r=0,o=0,a=t.length-1,l=this.parts,[u,f]=zt(t,e);if(this.el=i.createElement(u,s),T.currentNode=this.el.content,e===2||e===3){let c=this.el.content.firstChild;c.replaceWith(...c.childNodes)}for(;(n=T.nextNode())!==null&&l.length<a;){if(n.nodeType===1){if(n.hasAttributes())for(let c of n.getAttributeNames())if(c.endsWith($t)){let p=f[o++],m=n.getAttribute(c).split(_),g=/([.?@])?(.*)/.exec(p);l.push({type:1,index:r,name:g[2],strings:m,ctor:g[1]==="."?it:g[1]==="?"?nt:g[1]==="@"?rt:C}),n.removeAttribute(c)}else c.startsWith(_)&&(l.push({type:6,index:r}),n.removeAttribute(c));if(Vt.test(n.tagName)){let c=n.textContent.split(_),p=c.length-1;if(p>0){n.textContent=et?et.emptyScript:"";for(let m=0;m<p;m++)n.append(c[m],j()),T.nextNode(),l.push({type:2,index:++r});n.append(c[p],j())}}}else if(n.nodeType===8)if(n.data===wt)l.push({type:2,index:r});else{let c=-1;for(;(c=n.data.indexOf(_,c+1))!==-1;)l.push({type:7,index:r}),c+=_.length-1}r++}}static createElement(t,e){let s=R.createElement("template");return s.innerHTML=t,s}};function P(i,t,e=i,s){if(t===$)return t;let n=s!==void 0?e._$Co?.[s]:e._$Cl,r=B(t)?void 0:t._$litDirective$;return n?.constructor!==r&&(n?._$AO?.(!1),r===void 0?n=void 0:(n=new r(i),n._$AT(i,e,s)),s!==void 0?(e._$Co??=[])[s]=n:e._$Cl=n),n!==void 0&&(t=P(i,n._$AS(i,t.values),n,s)),t}var st=class{constructor(t,e){this._$AV=[],this._$AN=void 0,this._$AD=t,this._$AM=e}get parentNode(){return this._$AM.parentNode}get _$AU(){return this._$AM._$AU}u(t){let{el:{content:e},parts:s}=this._$AD,n=(t?.creationScope??R).importNode(e,!0);T.currentNode=n;let r=T.nextNode(),o=0,a=0,l=s[0];for(;l!==void 0;){if(o===l.index){let u;l.type===2?u=new U(r,r.nextSibling,this,t):l.type===1?u=new l.ctor(r,l.name,l.strings,this,t):l.type===6&&(u=new ot(r,this,t)),this._$AV.push(u),l=s[++a]}o!==l?.index&&(r=T.nextNode(),o++)}return T.currentNode=R,n}p(t){let e=0;for(let s of this._$AV)s!==void 0&&(s.strings!==void 0?(s._$AI(t,s,e),e+=s.strings.length-2):s._$AI(t[e])),e++}},U=class i{get _$AU(){return this._$AM?._$AU??this._$Cv}constructor(t,e,s,n){this.type=2,this._$AH=d,this._$AN=void 0,this._$AA=t,this._$AB=e,this._$AM=s,this.options=n,this._$Cv=n?.isConnected??!0}get parentNode(){let t=this._$AA.parentNode,e=this._$AM;return e!==void 0&&t?.nodeType===11&&(t=e.parentNode),t}get startNode(){return this._$AA}get endNode(){return this._$AB}_$AI(t,e=this){t=P(this,t,e),B(t)?t===d||t==null||t===""?(this._$AH!==d&&this._$AR(),this._$AH=d):t!==this._$AH&&t!==$&&this._(t):t._$litType$!==void 0?this.$(t):t.nodeType!==void 0?this.T(t):Wt(t)?this.k(t):this._(t)}O(t){return this._$AA.parentNode.insertBefore(t,this._$AB)}T(t){this._$AH!==t&&(this._$AR(),this._$AH=this.O(t))}_(t){this._$AH!==d&&B(this._$AH)?this._$AA.nextSibling.data=t:this.T(R.createTextNode(t)),this._$AH=t}$(t){let{values:e,_$litType$:s}=t,n=typeof s=="number"?this._$AC(t):(s.el===void 0&&(s.el=F.createElement(Kt(s.h,s.h[0]),this.options)),s);if(this._$AH?._$AD===n)this._$AH.p(e);else{let r=new st(n,this),o=r.u(this.options);r.p(e),this.T(o),this._$AH=r}}_$AC(t){let e=Jt.get(t.strings);return e===void 0&&Jt.set(t.strings,e=new F(t)),e}k(t){yt(this._$AH)||(this._$AH=[],this._$AR());let e=this._$AH,s,n=0;for(let r of t)n===e.length?e.push(s=new i(this.O(j()),this.O(j()),this,this.options)):s=e[n],s._$AI(r),n++;n<e.length&&(this._$AR(s&&s._$AB.nextSibling,n),e.length=n)}_$AR(t=this._$AA.nextSibling,e){for(this._$AP?.(!1,!0,e);t!==this._$AB;){let s=Ht(t).nextSibling;Ht(t).remove(),t=s}}setConnected(t){this._$AM===void 0&&(this._$Cv=t,this._$AP?.(t))}},C=class{get tagName(){return this.element.tagName}get _$AU(){return this._$AM._$AU}constructor(t,e,s,n,r){this.type=1,this._$AH=d,this._$AN=void 0,this.element=t,this.name=e,this._$AM=n,this.options=r,s.length>2||s[0]!==""||s[1]!==""?(this._$AH=Array(s.length-1).fill(new String),this.strings=s):this._$AH=d}_$AI(t,e=this,s,n){let r=this.strings,o=!1;if(r===void 0)t=P(this,t,e,0),o=!B(t)||t!==this._$AH&&t!==$,o&&(this._$AH=t);else{let a=t,l,u;for(t=r[0],l=0;l<r.length-1;l++)u=P(this,a[s+l],e,l),u===$&&(u=this._$AH[l]),o||=!B(u)||u!==this._$AH[l],u===d?t=d:t!==d&&(t+=(u??"")+r[l+1]),this._$AH[l]=u}o&&!n&&this.j(t)}j(t){t===d?this.element.removeAttribute(this.name):this.element.setAttribute(this.name,t??"")}},it=class extends C{constructor(){super(...arguments),this.type=3}j(t){this.element[this.name]=t===d?void 0:t}},nt=class extends C{constructor(){super(...arguments),this.type=4}j(t){this.element.toggleAttribute(this.name,!!t&&t!==d)}},rt=class extends C{constructor(t,e,s,n,r){super(t,e,s,n,r),this.type=5}_$AI(t,e=this){if((t=P(this,t,e,0)??d)===$)return;let s=this._$AH,n=t===d&&s!==d||t.capture!==s.capture||t.once!==s.once||t.passive!==s.passive,r=t!==d&&(s===d||n);n&&this.element.removeEventListener(this.name,this,s),r&&this.element.addEventListener(this.name,this,t),this._$AH=t}handleEvent(t){typeof this._$AH=="function"?this._$AH.call(this.options?.host??this.element,t):this._$AH.handleEvent(t)}},ot=class{constructor(t,e,s){this.element=t,this.type=6,this._$AN=void 0,this._$AM=e,this.options=s}get _$AU(){return this._$AM._$AU}_$AI(t){P(this,t)}},Gt={M:$t,P:_,A:wt,C:1,L:zt,R:st,D:Wt,V:P,I:U,H:C,N:nt,U:rt,B:it,F:ot},Oe=gt.litHtmlPolyfillSupport;Oe?.(F,U),(gt.litHtmlVersions??=[]).push("3.3.3");var Yt=(i,t,e)=>{let s=e?.renderBefore??t,n=s._$litPart$;if(n===void 0){let r=e?.renderBefore??null;s._$litPart$=n=new U(t.insertBefore(j(),r),r,void 0,e??{})}return n._$AI(i),n};var vt=globalThis,w=class extends v{constructor(){super(...arguments),this.renderOptions={host:this},this._$Do=void 0}createRenderRoot(){let t=super.createRenderRoot();return this.renderOptions.renderBefore??=t.firstChild,t}update(t){let e=this.render();this.hasUpdated||(this.renderOptions.isConnected=this.isConnected),super.update(t),this._$Do=Yt(e,this.renderRoot,this.renderOptions)}connectedCallback(){super.connectedCallback(),this._$Do?.setConnected(!0)}disconnectedCallback(){super.disconnectedCallback(),this._$Do?.setConnected(!1)}render(){return $}};w._$litElement$=!0,w.finalized=!0,vt.litElementHydrateSupport?.({LitElement:w});var Me=vt.litElementPolyfillSupport;Me?.({LitElement:w});(vt.litElementVersions??=[]).push("4.2.2");function Xt(i){return Object.entries(i.paths).filter(t=>t[1].get!==void 0).map(([t,{get:e}])=>Ue(i,t,e))}function Ue(i,t,e){let s=(e.parameters??[]).map(a=>_t(i,a)),n=s.find(a=>a.name==="_format"),r=e.responses[200]?.content?.["application/x-ndjson"]?.["x-itemSchema"],o=r?_t(i,r).properties:void 0;return{path:t,summary:e.summary??"",params:s.filter(a=>!a.name.startsWith("_")),controls:new Set(s.map(a=>a.name).filter(a=>a.startsWith("_"))),formats:(n?.schema.enum??[]).map(String),columns:Object.entries(o??{}).map(([a,l])=>({name:a,schema:_t(i,l)})),needsToken:(e.security??[]).some(a=>Object.keys(a).length>0)}}function _t(i,t){let e=t.$ref;if(!e)return t;let s=i;for(let n of e.slice(2).split("/"))s=s[n];return s}function J(i){if(i.type==="array")return`list of ${i.items?J(i.items):"anything"}`;let e=(i.anyOf?.map(J)??[i.type??[]].flat()).filter(s=>s!=="null"&&!s.startsWith("one of"));return i.format&&e.length<=1?i.format:e.length?[...new Set(e)].join(" or "):i.enum?`one of ${i.enum.length}`:"any"}var St="rowstream.token",L=new URL("./",location.href.split("#")[0]),Qt=new URL("../",L),S=()=>sessionStorage.getItem(St)??"";function Zt(i){i?sessionStorage.setItem(St,i):sessionStorage.removeItem(St)}function N(i,t={}){let e=new Headers(t.headers);return S()&&e.set("Authorization",`Bearer ${S()}`),fetch(i,{...t,headers:e,cache:"no-store",credentials:"omit"})}async function At(i){try{return await i.json()}catch{return{status:i.status,title:i.statusText||`status ${i.status}`}}}async function te(i,t={}){let e=await N(new URL(i,L),t);if(!e.ok)throw await At(e);return await e.json()}var A={ATTRIBUTE:1,CHILD:2,PROPERTY:3,BOOLEAN_ATTRIBUTE:4,EVENT:5,ELEMENT:6},q=i=>(...t)=>({_$litDirective$:i,values:t}),E=class{constructor(t){}get _$AU(){return this._$AM._$AU}_$AT(t,e,s){this._$Ct=t,this._$AM=e,this._$Ci=s}_$AS(t,e){return this.update(t,e)}update(t,e){return this.render(...e)}};var{I:Le}=Gt,ee=i=>i;var ie=i=>i.strings===void 0,se=()=>document.createComment(""),H=(i,t,e)=>{let s=i._$AA.parentNode,n=t===void 0?i._$AB:t._$AA;if(e===void 0){let r=s.insertBefore(se(),n),o=s.insertBefore(se(),n);e=new Le(r,o,i,i.options)}else{let r=e._$AB.nextSibling,o=e._$AM,a=o!==i;if(a){let l;e._$AQ?.(i),e._$AM=i,e._$AP!==void 0&&(l=i._$AU)!==o._$AU&&e._$AP(l)}if(r!==n||a){let l=e._$AA;for(;l!==r;){let u=ee(l).nextSibling;ee(s).insertBefore(l,n),l=u}}}return e},x=(i,t,e=i)=>(i._$AI(t,e),i),Ne={},at=(i,t=Ne)=>i._$AH=t,ne=i=>i._$AH,lt=i=>{i._$AR(),i._$AA.remove()};var W=q(class extends E{constructor(i){if(super(i),i.type!==A.PROPERTY&&i.type!==A.ATTRIBUTE&&i.type!==A.BOOLEAN_ATTRIBUTE)throw Error("The `live` directive is not allowed on child or event bindings");if(!ie(i))throw Error("`live` bindings can only contain a single expression")}render(i){return i}update(i,[t]){if(t===$||t===d)return t;let e=i.element,s=i.name;if(i.type===A.PROPERTY){if(t===e[s])return $}else if(i.type===A.BOOLEAN_ATTRIBUTE){if(!!t===e.hasAttribute(s))return $}else if(i.type===A.ATTRIBUTE&&e.getAttribute(s)===t+"")return $;return at(i),t}});var re=(i,t,e)=>{let s=new Map;for(let n=t;n<=e;n++)s.set(i[n],n);return s},oe=q(class extends E{constructor(i){if(super(i),i.type!==A.CHILD)throw Error("repeat() can only be used in text expressions")}dt(i,t,e){let s;e===void 0?e=t:t!==void 0&&(s=t);let n=[],r=[],o=0;for(let a of i)n[o]=s?s(a,o):o,r[o]=e(a,o),o++;return{values:r,keys:n}}render(i,t,e){return this.dt(i,t,e).values}update(i,[t,e,s]){let n=ne(i),{values:r,keys:o}=this.dt(t,e,s);if(!Array.isArray(n))return this.ut=o,r;let a=this.ut??=[],l=[],u,f,c=0,p=n.length-1,m=0,g=r.length-1;for(;c<=p&&m<=g;)if(n[c]===null)c++;else if(n[p]===null)p--;else if(a[c]===o[m])l[m]=x(n[c],r[m]),c++,m++;else if(a[p]===o[g])l[g]=x(n[p],r[g]),p--,g--;else if(a[c]===o[g])l[g]=x(n[c],r[g]),H(i,l[g+1],n[c]),c++,g--;else if(a[p]===o[m])l[m]=x(n[p],r[m]),H(i,n[c],n[p]),p--,m++;else if(u===void 0&&(u=re(o,m,g),f=re(a,c,p)),u.has(a[c]))if(u.has(a[p])){let b=f.get(o[m]),pt=b!==void 0?n[b]:null;if(pt===null){let Pt=H(i,n[c]);x(Pt,r[m]),l[m]=Pt}else l[m]=x(pt,r[m]),H(i,n[c],pt),n[b]=null;m++}else lt(n[p]),p--;else lt(n[c]),c++;for(;m<=g;){let b=H(i,l[g+1]);x(b,r[m]),l[m++]=b}for(;c<=p;){let b=n[c++];b!==null&&lt(b)}return this.ut=o,at(i,l),$}});var qe=new Intl.NumberFormat("en-US",{maximumFractionDigits:0}),ae=["B","KB","MB","GB","TB"],y=i=>qe.format(i);function V(i){let t=0;for(;i>=1e3&&t<ae.length-1;)i/=1e3,t+=1;return`${i<10&&t>0?i.toFixed(1):i.toFixed(0)} ${ae[t]}`}function ht(i){if(i<1)return"< 1 ms";if(i<1e3)return`${i.toFixed(0)} ms`;if(i<6e4)return`${(i/1e3).toFixed(1)} s`;let t=Math.floor(i/1e3);return t<3600?`${Math.floor(t/60)} min ${t%60} s`:`${Math.floor(t/3600)} h ${Math.floor(t%3600/60)} min`}var ct=class{constructor(){this.total=0;this.columns=new Map;this.#t=[];this.#s=0;this.#n=!1;this.#r=[];this.#e=0;this.#i=0}#t;#s;#n;#r;#e;#i;push(t){if(this.total+=1,this.total<=200&&this.#a(t),!this.#n){this.#t.push(t),this.#s+=t.length,this.#n=this.#t.length>=1e4||this.#s>=8388608;return}let e=this.#r.at(-1);(!e||e.lines.length>=500||e.text>8388608/16)&&(e={lines:[],text:0},this.#r.push(e)),e.lines.push(t),e.text+=t.length,this.#e+=1,this.#i+=t.length,(this.#e>=10500||this.#i>8388608)&&this.#o()}#o(){if(this.#r.length<2)return;let t=this.#r.shift();this.#e-=t.lines.length,this.#i-=t.text}#a(t){for(let[e,s]of z(t)){let n=Math.max(this.columns.get(e)??e.length,Math.min(s.length,48));this.columns.set(e,n)}}get#l(){return this.total-this.#t.length-this.#e}get length(){return this.#t.length+(this.#l>0?1:0)+this.#e}get kept(){return this.#t.length+this.#e}at(t){if(t<this.#t.length)return{row:t+1,line:this.#t[t]};let e=t-this.#t.length,s=this.#l;if(s>0){if(e===0)return{from:this.#t.length+1,to:this.#t.length+s};e-=1}let n=this.#t.length+s+e+1;for(let r of this.#r){if(e<r.lines.length)return{row:n,line:r.lines[e]};e-=r.lines.length}}cutTo(t){for(;this.total>t;){this.total-=1;let e=this.#r.at(-1);if(!e){this.#s-=this.#t.pop()?.length??0,this.#n=!1;continue}let s=e.lines.pop()?.length??0;e.text-=s,this.#i-=s,this.#e-=1,e.lines.length===0&&this.#r.pop()}}};function z(i){let t=K(i,0);if(i[t]!=="{")return[["value",i.trim()]];let e=[];for(t=K(i,t+1);i[t]==='"';){let s=le(i,t),n=JSON.parse(i.slice(t,s)),r=K(i,K(i,s)+1),o=He(i,r);e.push([n,i.slice(r,o).trimEnd()]),t=K(i,o+1)}return e}function K(i,t){for(;i[t]===" "||i[t]==="	";)t+=1;return t}function le(i,t){for(t+=1;t<i.length&&i[t]!=='"';t+=1)i[t]==="\\"&&(t+=1);return t+1}function He(i,t){let e=0;for(;t<i.length;){let s=i[t];if(s==='"'){t=le(i,t);continue}if(e===0&&(s===","||s==="}"))return t;(s==="{"||s==="[")&&(e+=1),(s==="}"||s==="]")&&(e-=1),t+=1}return t}function he(i){let t=i[0];return t==='"'?{kind:"text",text:JSON.parse(i)}:t==="{"||t==="["?{kind:"json",text:i}:t==="n"?{kind:"null",text:"null"}:{kind:t==="t"||t==="f"?"boolean":"number",text:i}}var de=["ndjson","sse","json-seq"],ce=1e5,De=4e3,Ie=30,dt=class{constructor(t,e){this.asked=t;this.changed=e;this.state="waiting";this.why="";this.status=0;this.bytes=0;this.rows=new ct;this.text="";this.#t="";this.started=performance.now();this.stream="";this.timing=[];this.limit=0;this.#s=new AbortController;this.#n="";this.#r=0;this.#e="";this.#o=!1}#t;#s;#n;#r;#e;#i;#o;get isRows(){return this.asked.format==="ndjson"}get isRunning(){return this.state==="waiting"||this.state==="running"}get elapsed(){return(this.ended??performance.now())-this.started}cancel(){this.#o=!0,this.#s.abort()}async start(){await this.#a(this.asked.url)}async resume(){if(!this.mark)return;this.rows.cutTo(this.mark.rows);let t=new URL(this.asked.url);t.searchParams.set("_after",this.mark.next),this.#r=this.rows.total,this.#e="",this.#i=void 0,this.#o=!1,this.#s=new AbortController,this.why="",this.problem=this.report=this.ended=void 0,this.state="waiting",this.changed(),await this.#a(t)}async#a(t){let e=setInterval(()=>{this.#p()},1e3);try{await this.#h(t)}catch(s){this.#l(s)}finally{clearInterval(e)}this.ended=performance.now(),this.changed(),await this.#p(this.state==="cancelled"?5:1),this.state==="unproved"&&this.#g(),this.changed()}#l(t){this.#o?this.state="cancelled":this.problem?this.state="failed":this.state==="waiting"?(this.state="failed",this.problem={title:"The server cannot be reached",detail:String(t)}):(this.state="truncated",this.why="the connection ended before the answer did")}async#h(t){let e={headers:this.asked.headers,signal:this.#s.signal},s=await N(t,e);if(this.status=s.status,!s.ok){this.problem=await At(s),this.state="failed";return}this.state="running",this.stream=s.headers.get("Rowstream-Stream")??"",this.#n=s.headers.get("Rowstream-Tag")??"",this.timing=je(s.headers.get("Server-Timing")),this.changed(),await this.#c(s),this.#f(s)}async#c(t){let e=t.body?.getReader();if(!e)return;let s=new TextDecoder,n=performance.now();for(;;){let{done:r,value:o}=await e.read();if(r)break;this.bytes+=o.byteLength,this.asked.format!=="arrow"&&this.#u(s.decode(o,{stream:!0})),this.limit>0&&await this.#$(o.byteLength),performance.now()-n>Ie&&(this.changed(),await new Promise(a=>setTimeout(a)),n=performance.now())}}#u(t){if(!this.isRows){this.text.length<ce&&(this.text+=t.slice(0,ce-this.text.length)),this.#t=(this.#t+t).slice(-De),this.changed();return}let e=(this.#e+t).split(`
`);this.#e=e.pop()??"";for(let s of e)s&&this.#d(s);this.changed()}#d(t){if(this.#n&&t.startsWith(`{"$rowstream":"${this.#n}",`)){this.#m(JSON.parse(t));return}this.firstRow??=performance.now()-this.started,this.rows.push(t)}#m({end:t,mark:e,error:s}){let n=t?.next??e?.next;n&&(this.mark={next:n,rows:this.rows.total}),t&&(this.#i=t),s&&(this.problem=s)}#f(t){let e=`{"$rowstream":"${this.#n}","end":`;if(this.problem)this.state="failed";else if(this.#i||this.#n&&this.#t.includes(e)){let s=this.rows.total-this.#r,n=!this.#i||this.#i.rows===s;this.state=n?"complete":"truncated",n||(this.why=`${s} rows came, and the server sent ${this.#i?.rows}`)}else if(this.#n)this.state="truncated",this.why="it ended without the record of its end";else{let s=t.headers.has("Content-Length")||t.status===204;this.state=s?"complete":"unproved"}}#g(){this.report&&(this.report.state!=="complete"?(this.state="truncated",this.why=`the server says: ${this.report.state}`,this.problem=this.report.error):this.report.bytes===this.bytes&&(this.state="complete"))}async#p(t=0){for(let e=Math.max(t,1);this.stream&&e>0;e-=1){try{let s=await N(new URL(`streams/${this.stream}`,L));if(!s.ok)return;this.report=await s.json()}catch{return}if(this.changed(),t===0||this.report.state!=="running")return;await new Promise(s=>setTimeout(s,200))}}async#$(t){this.changed();for(let e=performance.now();this.limit>0&&!this.#s.signal.aborted;){let s=t/this.limit*1e3-(performance.now()-e);if(s<=0)return;await new Promise(n=>setTimeout(n,Math.min(s,200)))}}};function je(i){return(i??"").split(",").flatMap(t=>{let e=/^\s*([\w-]+);dur=([\d.]+)/.exec(t);return e?[[e[1],Number(e[2])]]:[]})}function ue(i,t,e,s){let n=e==="ndjson"&&i.searchParams.has("_end"),r=s?{Authorization:"Bearer $TOKEN",...t}:t;return[{name:"curl",text:Be(i,r,e)},{name:"JavaScript",text:n?Je(i,r):Fe(i,r)},{name:"Python",text:n?Ve(i,r):We(i,r)}]}var pe=i=>`'${i.replaceAll("'","'\\''")}'`;function Be(i,t,e){let s=Object.entries(t).map(([r,o])=>o.includes("$TOKEN")?`  -H "${r}: ${o}"`:`  -H ${pe(`${r}: ${o}`)}`),n=e==="arrow"?["  -o rows.arrows"]:[];return["curl -fsS --compressed",...s,...n,`  ${pe(i.href)}`].join(` \\
`)}function me(i){return Object.keys(i).length===0?"":`, { headers: { ${Object.entries(i).map(([e,s])=>s.includes("$TOKEN")?`${JSON.stringify(e)}: \`${s.replace("$TOKEN","${token}")}\``:`${JSON.stringify(e)}: ${JSON.stringify(s)}`).join(", ")} } }`}function Fe(i,t){return`const response = await fetch(${JSON.stringify(i.href)}${me(t)});
if (!response.ok) throw new Error((await response.json()).detail);
// It throws where the answer is cut.
const text = await response.text();`}function Je(i,t){return`const response = await fetch(${JSON.stringify(i.href)}${me(t)});
if (!response.ok) throw new Error((await response.json()).detail);
const record = \`{"$rowstream":"\${response.headers.get("Rowstream-Tag")}",\`;
let rest = "", end;
for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
  const lines = (rest + text).split("\\n");
  rest = lines.pop();
  for (const line of lines.filter(Boolean)) {
    if (line.startsWith(record)) end = JSON.parse(line).end ?? end;
    else console.log(JSON.parse(line)); // a row
  }
}
if (!end) throw new Error("it is not whole");`}function fe(i){return Object.keys(i).length===0?"":`, headers={${Object.entries(i).map(([e,s])=>s.includes("$TOKEN")?`${JSON.stringify(e)}: f"${s.replace("$TOKEN","{token}")}"`:`${JSON.stringify(e)}: ${JSON.stringify(s)}`).join(", ")}}`}function We(i,t){return`import requests

response = requests.get(${JSON.stringify(i.href)}${fe(t)})
response.raise_for_status()
body = response.content  # it raises where the answer is cut`}function Ve(i,t){return`import json, requests

end = None
with requests.get(${JSON.stringify(i.href)}${fe(t)}, stream=True) as response:
    response.raise_for_status()
    record = '{"$rowstream":"%s",' % response.headers["Rowstream-Tag"]
    for line in response.iter_lines():
        text = line.decode()
        if text.startswith(record):
            end = json.loads(text).get("end", end)
        elif text:
            print(json.loads(text))  # a row
if end is None:
    raise EOFError("it is not whole")`}var Et=class extends E{render(t){return $}update(t,[e]){return Object.assign(t.element.style,e),$}},O=q(Et);var M=29,ge=8,$e=7.9,we=26,xt=class extends w{static{this.properties={rows:{attribute:!1},total:{attribute:!1},follows:{attribute:!1},picked:{state:!0}}}#t=new ResizeObserver(()=>this.requestUpdate());constructor(){super(),this.picked=-1}createRenderRoot(){return this}connectedCallback(){super.connectedCallback(),this.#t.observe(this)}disconnectedCallback(){super.disconnectedCallback(),this.#t.disconnect()}get#s(){return this.querySelector(".scroller")}updated(){let t=this.#s;this.follows&&t&&(t.scrollTop=t.scrollHeight)}render(){let t=[...this.rows.columns],e=this.#s,[s,n]=[e?.scrollTop??0,e?.clientHeight||600],r=Math.max(0,Math.min(Math.floor(s/M),this.rows.length)-ge),o=Math.min(this.rows.length,Math.ceil((s+n)/M)+ge),a=[];for(let c=r;c<o;c+=1){let p=this.rows.at(c);p&&a.push(this.#n(c,p,t))}let l=Math.max(5,String(this.rows.total).length+2)*$e+we,u=t.map(([,c])=>Math.round(c*$e+we)),f=u.reduce((c,p)=>c+p,l);return h`<div
      class="scroller"
      tabindex="0"
      role="region"
      aria-label="Rows. Arrow keys choose a row, Enter shows it."
      @scroll=${()=>this.requestUpdate()}
      @keydown=${this.#i}
    >
      <div class="sizer" ${O({height:`${(this.rows.length+1)*M}px`})}>
        <table
          aria-rowcount=${this.rows.total+1}
          ${O({top:`${r*M}px`,minWidth:`${f}px`})}
        >
          <colgroup>
            <col ${O({width:`${l}px`})} />
            ${u.map(c=>h`<col ${O({width:`${c}px`})} />`)}
          </colgroup>
          <thead>
            <tr aria-rowindex="1">
              <th scope="col" class="number">#</th>
              ${t.map(([c])=>h`<th scope="col" title=${c}>${c}</th>`)}
            </tr>
          </thead>
          <tbody>
            ${a}
          </tbody>
        </table>
      </div>
    </div>`}#n(t,e,s){if("from"in e){let r=`rows ${y(e.from)} to ${y(e.to)} came by and are not kept`;return h`<tr class="gap"><td colspan=${s.length+1}><span>${r}</span></td></tr>`}let n=new Map(z(e.line));return h`<tr
      class=${t===this.picked?"picked":""}
      aria-rowindex=${e.row+1}
      @click=${()=>this.#r(t)}
      @dblclick=${()=>this.#e(t)}
    >
      <th scope="row" class="number">${y(e.row)}</th>
      ${s.map(([r])=>Ke(n.get(r)))}
    </tr>`}#r(t){this.picked=Math.max(0,Math.min(t,this.rows.length-1));let e=this.#s;if(!e)return;let s=this.picked*M,n=e.scrollTop+e.clientHeight-3*M;s<e.scrollTop?e.scrollTop=s:s>n&&(e.scrollTop+=s-n)}#e(t){let e=this.rows.at(t);!e||"from"in e||this.dispatchEvent(new CustomEvent("open-row",{detail:e,bubbles:!0}))}#i(t){let e=Math.floor((this.#s?.clientHeight??0)/M)-2,n={ArrowDown:1,ArrowUp:-1,PageDown:e,PageUp:-e,Home:-1/0,End:1/0}[t.key];if(t.key==="Enter")this.#e(this.picked);else if(n!==void 0)this.#r(Math.max(-1,this.picked)+n);else return;t.preventDefault()}};function Ke(i){if(i===void 0)return h`<td></td>`;let{kind:t,text:e}=he(i),s=e.length>300?`${e.slice(0,300)}…`:e;return h`<td class=${t} title=${e.length>30?s:d}>${s}</td>`}customElements.define("rs-table",xt);var Y=[0,4e6,1e6,25e4,5e4,1e4],ye=["pool","database","encode","client"],be={waiting:"Waiting for the first row",running:"Streaming",complete:"Complete",unproved:"Ended, not proved whole",truncated:"Truncated",failed:"Failed",cancelled:"Cancelled"},ze={ndjson:"NDJSON (table)",json:"JSON",csv:"CSV",sse:"Server-sent events","json-seq":"JSON text sequence",arrow:"Arrow"},kt=class extends w{static{this.properties={endpoint:{attribute:!1},query:{attribute:!1},isFollowing:{state:!0},isPaused:{state:!0},speed:{state:!0},language:{state:!0},said:{state:!0}}}#t=!1;#s=0;constructor(){super(),this.isFollowing=this.isPaused=!1,this.speed=this.language=0,this.said=""}createRenderRoot(){return this}willUpdate(t){let e=t.get("endpoint");e&&e.path!==this.endpoint.path&&this.#n()}disconnectedCallback(){super.disconnectedCallback(),this.#n()}#n(){this.run?.cancel(),this.run=void 0,this.isFollowing=this.isPaused=!1,this.said=""}#r=()=>{this.#t||(this.#t=!0,requestAnimationFrame(()=>{this.#t=!1,this.requestUpdate()}))};get#e(){let{formats:t}=this.endpoint,e=this.query.get("_format")??"";return t.includes(e)?e:t.includes("ndjson")?"ndjson":t[0]??""}get#i(){return this.endpoint.controls.has("_follow")&&this.query.get("_follow")==="1"}#o(){let t=this.endpoint.path,e=new URLSearchParams,s={};for(let o of this.endpoint.params){let a=this.query.get(o.name)??"";if(o.in==="path")t=t.replace(`{${o.name}}`,encodeURIComponent(a));else{if(a==="")continue;if(o.in==="header")s[o.name]=a;else for(let l of Ge(o,a))e.append(o.name,l)}}let n=this.#e;n&&e.set("_format",n),de.includes(n)&&this.endpoint.controls.has("_end")&&e.set("_end","1"),this.#i&&e.set("_follow","1");let r=new URL(t.replace(/^\//,"./"),Qt);return r.search=e.toString(),{url:r,headers:s}}#a(t,e){let s=new URLSearchParams(this.query);e===""?s.delete(t):s.set(t,e),this.query=s;let n=s.toString();history.replaceState(null,"",`#/endpoints${this.endpoint.path}${n&&`?${n}`}`)}async#l(t){t?.preventDefault(),this.run?.cancel(),this.isPaused=!1;let{url:e,headers:s}=this.#o();this.run=new dt({url:e,headers:s,format:this.#e},this.#r),this.isFollowing=this.#i,await this.#h(this.run,this.run.start())}async#h(t,e){t.limit=Y[this.speed]??0,this.said="Running",this.requestUpdate(),await e,t===this.run&&(this.said=`${be[t.state]}, ${y(t.rows.total)} rows. ${t.problem?.detail??t.why}`)}#c(t){this.speed=Number(t.target.value),this.run&&(this.run.limit=Y[this.speed]??0)}#u(){this.isPaused=!this.isPaused,this.#s=this.run?.rows.total??0}async#d(t,e){await navigator.clipboard.writeText(e),this.said=`${t} copied`}render(){let{path:t,summary:e,needsToken:s}=this.endpoint;return h`<article aria-labelledby="title">
      <a class="back" href="#/endpoints">← All endpoints</a>
      <header class="title">
        <h1 id="title"><span class="method">GET</span> ${Ye(t)}</h1>
        <button class="quiet" @click=${()=>this.#d("Link",location.href)}>Copy link</button>
      </header>
      ${e?h`<p class="summary">${e}</p>`:d}
      ${s&&!S()?h`<p class="note">It needs a token, which you have not entered.</p>`:d}
      ${this.#m()} ${this.run?this.#g(this.run):d} ${this.#y()} ${this.#b()}
      <p class="spoken" role="status" aria-live="polite">${this.said}</p>
    </article>`}#m(){let{params:t,formats:e,controls:s}=this.endpoint,n=this.run?.isRunning??!1;return h`<form class="card" @submit=${this.#l}>
      ${t.length?h`<div class="fields">${oe(t,r=>r.name,r=>this.#f(r))}</div>`:h`<p class="quiet">It takes no parameters.</p>`}
      <div class="actions">
        ${e.length>1?h`<label class="inline"
              ><span>Format</span>
              <select @change=${r=>this.#a("_format",r.target.value)}>
                ${e.map(r=>h`<option value=${r} ?selected=${r===this.#e}>
                    ${ze[r]??r}
                  </option>`)}
              </select></label
            >`:d}
        ${s.has("_follow")?h`<label class="inline check"
              ><input
                type="checkbox"
                .checked=${W(this.#i)}
                @change=${r=>this.#a("_follow",r.target.checked?"1":"")}
              /><span>Live tail</span></label
            >`:d}
        <span class="grow"></span>
        ${n?h`<button type="button" class="stop" @click=${()=>this.run?.cancel()}>Cancel</button>`:h`<button type="submit" class="run">Run</button>`}
        <button type="button" @click=${this.#v} title="Save all of it to a file">Download</button>
      </div>
    </form>`}#f(t){let{name:e,schema:s,required:n,description:r}=t,o=`param-${e}`,a=this.query.get(e)??"",l=s.default===void 0||s.default===null?"":String(s.default),u=p=>this.#a(e,p.target.value),f=s.enum??s.items?.enum??(s.type==="boolean"?[!0,!1]:void 0),c=f&&s.type!=="array";return h`<div class="field">
      <label for=${o}
        >${e}${n?h`<span class="required" title="required">*</span>`:d}
        <span class="type">${J(s)}</span></label
      >
      ${c?h`<select id=${o} ?required=${n} aria-describedby="${o}-more" @change=${u}>
            <option value="" ?selected=${a===""}>${l||(n?"choose":"any")}</option>
            ${f.map(p=>h`<option value=${String(p)} ?selected=${a===String(p)}>${p}</option>`)}
          </select>`:h`<input
            id=${o}
            .value=${W(a)}
            ?required=${n}
            placeholder=${l||Xe(t)}
            inputmode=${s.type==="integer"?"numeric":"text"}
            autocomplete="off"
            spellcheck="false"
            aria-describedby="${o}-more"
            @input=${u}
          />`}
      <small id="${o}-more">${Qe(t,r)}</small>
    </div>`}#g(t){let e=t.elapsed,s=e>0?t.rows.total/e*1e3:0;return h`<section class="card result" aria-label="Result">
      <div class="progress">
        <span class="state ${t.state}" data-state=${t.state}>${be[t.state]}</span>
        ${t.isRows?G("rows",y(t.rows.total)):d}
        ${t.isRows?G("rows/s",y(s)):d} ${G("received",V(t.bytes))}
        ${G("time",ht(e))}
        ${t.firstRow===void 0?d:G("first row",ht(t.firstRow))}
        <span class="grow"></span>
        ${this.#p(t)}
      </div>
      ${t.why?h`<p class="warning" role="alert">This answer is not whole: ${t.why}.</p>`:d}
      ${t.state==="unproved"?h`<p class="note">
            Nothing tells whether this was the end of it: the answer was compressed on its way, and its format has no
            record at the end. NDJSON has one.
          </p>`:d}
      ${t.problem?Ze(t.problem):d} ${ts(t)} ${this.#$(t)}
    </section>`}#p(t){let e=t.mark&&!t.isRunning&&t.state!=="complete";return h`${t.isRunning&&t.isRows?h`<button class="quiet" aria-pressed=${this.isPaused} @click=${this.#u}>
            ${this.isPaused?`Go on (${y(t.rows.total-this.#s)} new)`:"Pause"}
          </button>`:d}
      ${e?h`<button class="quiet" @click=${()=>this.#h(t,t.resume())}>
            Resume after row ${y(t.mark.rows)}
          </button>`:d}
      ${t.isRows?h`<label class="inline check"
            ><input
              type="checkbox"
              .checked=${W(this.isFollowing)}
              @change=${s=>this.isFollowing=s.target.checked}
            /><span>Keep the last row in sight</span></label
          >`:d}
      <label class="inline" title="Be a slow client: the server and the database wait for you"
        ><span>Read at</span
        ><input
          type="range"
          min="0"
          max=${Y.length-1}
          .value=${W(String(this.speed))}
          aria-valuetext=${ve(this.speed)}
          @input=${this.#c}
        /><output>${ve(this.speed)}</output></label
      >`}#$(t){if(t.isRows){if(t.rows.total===0)return t.state==="complete"?h`<p class="empty">There are no rows.</p>`:d;let s=this.isPaused?this.#s:t.rows.total;return h`<rs-table
        .rows=${t.rows}
        .total=${s}
        .follows=${this.isFollowing&&!this.isPaused}
        @open-row=${this.#w}
      ></rs-table>`}if(t.asked.format==="arrow")return h`<p class="empty">Arrow is binary: download it to read it.</p>`;if(!t.text)return d;let e=t.bytes<=t.text.length*3&&t.text.length<1e5;return h`<pre class="text" tabindex="0" role="region" aria-label="The answer">${t.text}</pre>
      ${e?d:h`<p class="quiet">These are the first letters of ${V(t.bytes)}.</p>`}`}#w(t){let{row:e,line:s}=t.detail,n=this.querySelector("dialog")??document.createElement("dialog");n.replaceChildren(),n.ariaLabel=`Row ${e}`;let r=document.createElement("h2");r.textContent=`Row ${y(e)}`;let o=document.createElement("dl");for(let[l,u]of z(s)){let[f,c]=[document.createElement("dt"),document.createElement("dd")];[f.textContent,c.textContent]=[l,u],o.append(f,c)}let a=document.createElement("button");a.textContent="Close",a.onclick=()=>n.close(),n.append(r,o,a),this.append(n),n.showModal()}#y(){let{url:t,headers:e}=this.#o(),s=ue(t,e,this.#e,S()!==""),{name:n,text:r}=s[this.language];return h`<section class="card code" aria-label="The same request elsewhere">
      <div class="tabs" role="group" aria-label="Language">
        ${s.map(({name:o},a)=>h`<button
            class="tab"
            aria-pressed=${a===this.language}
            @click=${()=>this.language=a}
          >
            ${o}
          </button>`)}
        <span class="grow"></span>
        <button class="quiet" @click=${()=>this.#d(n,r)}>Copy</button>
      </div>
      <pre tabindex="0" role="region" aria-label=${n}>${r}</pre>
    </section>`}#b(){let{columns:t}=this.endpoint;return t.length===0?d:h`<details class="card">
      <summary>${t.length} columns</summary>
      <dl class="columns">
        ${t.map(({name:e,schema:s})=>h`<dt>${e}</dt><dd>${J(s)}</dd>`)}
      </dl>
    </details>`}#v=async()=>{if(!this.querySelector("form")?.reportValidity())return;let{url:e,headers:s}=this.#o();e.searchParams.delete("_end"),e.searchParams.delete("_follow");let n=this.endpoint.path.replaceAll(/[^\w-]+/g,"-").replaceAll(/^-+|-+$/g,"")||"rows";this.endpoint.controls.has("_download")&&e.searchParams.set("_download",n);let r=document.createElement("a");if(r.download=`${n}.${this.#e||"txt"}`,r.href=e.href,S()||Object.keys(s).length>0){this.said="Downloading";try{let o=await N(e,{headers:s});if(!o.ok)throw new Error(`status ${o.status}`);r.href=URL.createObjectURL(await o.blob())}catch(o){this.said=`The download failed, nothing is saved: ${String(o)}`;return}}r.click(),this.said=`${r.download} is downloaded by the browser`}};function Ge(i,t){return i.schema.type==="array"?t.split(",").map(e=>e.trim()):[t]}function Ye(i){return i.split(/(\{[^}]*\})/).map(t=>t.startsWith("{")?h`<em>${t}</em>`:t)}function Xe({schema:i,required:t}){let e={date:"2026-12-31","date-time":"2026-12-31T12:00:00Z",uuid:"00000000-0000-0000-0000-000000000000",duration:"PT10S"};return i.type==="array"?"1,2,3":e[i.format??""]??(t?"":"not given")}function Qe({schema:i,in:t,name:e},s=""){let n=[i.minimum===void 0?"":`from ${i.minimum}`,i.maximum===void 0?"":`to ${i.maximum}`],r=t==="query"?"":t==="path"?"in the path":`header ${e}`;return[s,n.filter(Boolean).join(" "),r].filter(Boolean).join(" · ")}function G(i,t){return h`<span class="fact"><b>${t}</b> <span>${i}</span></span>`}var ve=i=>Y[i]?`${V(Y[i])}/s`:"full speed";function Ze({title:i,status:t,code:e,detail:s,hint:n,sqlstate:r}){return h`<div class="problem" role="alert">
    <h2>${t?h`<span>${t}</span>`:d} ${i??e??"It failed"}</h2>
    ${s?h`<p>${s}</p>`:d} ${n?h`<p class="hint">${n}</p>`:d}
    <p class="quiet">
      ${e?h`<a href=${new URL(`errors/${e}`,L).href} target="_blank" rel="noreferrer">What ${e} means</a>`:d}
      ${r?h` SQLSTATE ${r}`:d}
    </p>
  </div>`}function ts(i){let t=Object.entries(i.report?.ms??{}).filter(([r])=>ye.includes(r)),e=t.length?t:i.timing.filter(([r])=>ye.includes(r)),s=e.reduce((r,[,o])=>r+o,0),n=i.report&&i.isRunning?`The server has sent ${V(i.report.bytes)}.`:"";return s===0?n?h`<p class="quiet phases">${n}</p>`:d:h`<div class="phases">
    <div class="bar" aria-hidden="true">
      ${e.map(([r,o])=>h`<i class=${r} ${O({flexGrow:String(o/s)})}></i>`)}
    </div>
    <p class="quiet">
      ${t.length?"Where the server's time went:":"Until the first row:"}
      ${e.map(([r,o])=>h`<span class="key ${r}">${r} ${ht(o)}</span> `)} ${n}
    </p>
  </div>`}customElements.define("rs-endpoint",kt);var _e="rowstream.theme",Tt=["auto","light","dark"],Rt=class extends w{constructor(){super();this.query=new URLSearchParams;this.search=this.path="",this.theme=localStorage.getItem(_e)??"auto",this.#t(),this.#e(),addEventListener("hashchange",()=>this.#t()),this.#s()}static{this.properties={endpoints:{state:!0},failure:{state:!0},search:{state:!0},path:{state:!0},theme:{state:!0}}}createRenderRoot(){return this}#t(){let[e="",s=""]=location.hash.slice(1).split(/\?(.*)/s);this.query=new URLSearchParams(s),this.path=es(e)||"/endpoints",this.requestUpdate()}async#s(){try{this.endpoints=Xt(await te("openapi.json")),this.failure=void 0}catch(e){let s=!(e instanceof Error);this.failure=s?e:{title:"The server cannot be reached",detail:e.message}}}get#n(){return this.endpoints?.find(({path:e})=>this.path===`/endpoints${e}`)}#r(){this.theme=Tt[(Tt.indexOf(this.theme)+1)%Tt.length],localStorage.setItem(_e,this.theme),this.#e()}#e(){document.documentElement.dataset.theme=this.theme}updated(){let e=this.#n;document.title=e?`${e.path} · Rowstream`:"Rowstream console"}render(){let e=this.#n;return h`<a class="skip" href="#main" @click=${this.#c}>Skip to the endpoint</a>
      <header class="top">
        <a class="brand" href="#/endpoints">${ss} Rowstream</a>
        <span class="grow"></span>
        <button class="quiet" @click=${this.#r}>Theme: ${this.theme}</button>
        <button class="quiet" @click=${this.#a}>${S()?"Token ✓":"Token"}</button>
      </header>
      <div class="page ${e?"has-chosen":""}">
        <nav aria-label="Endpoints">${this.#i()}</nav>
        <main id="main" tabindex="-1">
          ${e?h`<rs-endpoint .endpoint=${e} .query=${this.query}></rs-endpoint>`:this.#o()}
        </main>
      </div>
      ${this.#l()}`}#i(){if(this.failure)return h`<div class="problem" role="alert">
        <h2>${this.failure.title}</h2>
        <p>${this.failure.detail}</p>
        <button @click=${()=>this.#s()}>Try again</button>
      </div>`;let e=this.search.toLowerCase().split(/\s+/),s=(this.endpoints??[]).filter(({path:n,summary:r})=>e.every(o=>`${n} ${r}`.toLowerCase().includes(o)));return h`<input
        type="search"
        placeholder="Search endpoints"
        aria-label="Search endpoints"
        .value=${this.search}
        @input=${n=>this.search=n.target.value}
      />
      <ul>
        ${s.map(({path:n,summary:r,needsToken:o})=>h`<li>
            <a href="#/endpoints${n}" aria-current=${this.path===`/endpoints${n}`?"page":d}>
              <code>${n}</code>${o?h`<span class="lock" title="needs a token">token</span>`:d}
              ${r?h`<small>${r}</small>`:d}
            </a>
          </li>`)}
      </ul>
      ${this.endpoints&&s.length===0?h`<p class="quiet">${this.search?"None is called so.":"There is none that you may call."}</p>`:d}`}#o(){let e=this.endpoints&&this.path!=="/endpoints";return h`<div class="welcome">
      <h1>${e?"There is no such endpoint":"SQL as streaming HTTP endpoints"}</h1>
      <p>
        ${e?"It may need a token, or it is gone. Choose another one.":"Choose an endpoint, fill in its parameters and run it: rows are shown as they come, in constant memory."}
      </p>
    </div>`}#a(){this.querySelector("dialog.token").showModal()}#l(){return h`<dialog class="token" aria-labelledby="token-title">
      <form method="dialog" @submit=${this.#h}>
        <h2 id="token-title">Your token</h2>
        <p>It is sent as a bearer token, and kept by this tab until you close it.</p>
        <label for="token">Token</label>
        <input id="token" type="password" autocomplete="off" .value=${S()} />
        <div class="actions">
          <span class="grow"></span>
          <button type="button" @click=${()=>this.querySelector("dialog.token").close()}>
            Cancel
          </button>
          <button class="run">Use it</button>
        </div>
      </form>
    </dialog>`}#h(e){e.preventDefault(),Zt(this.querySelector("#token").value.trim()),this.querySelector("dialog.token").close(),this.#s(),this.requestUpdate()}#c(e){e.preventDefault(),this.querySelector("main").focus()}};function es(i){try{return decodeURI(i)}catch{return i}}var ss=h`<svg viewBox="0 0 24 24" width="22" height="22" aria-hidden="true">
  <rect x="2" y="4" width="20" height="3.4" rx="1.7" />
  <rect x="6" y="10.3" width="16" height="3.4" rx="1.7" opacity=".75" />
  <rect x="10" y="16.6" width="12" height="3.4" rx="1.7" opacity=".5" />
</svg>`;customElements.define("rs-app",Rt);
/*! Bundled license information:

@lit/reactive-element/css-tag.js:
  (**
   * @license
   * Copyright 2019 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)

@lit/reactive-element/reactive-element.js:
lit-html/lit-html.js:
lit-element/lit-element.js:
lit-html/directive.js:
lit-html/directives/repeat.js:
  (**
   * @license
   * Copyright 2017 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)

lit-html/is-server.js:
  (**
   * @license
   * Copyright 2022 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)

lit-html/directive-helpers.js:
lit-html/directives/live.js:
  (**
   * @license
   * Copyright 2020 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)
*/
